#include "server/responses/response_room.h"

#include <fmt/format.h>

#include <algorithm>

namespace fulmar {

std::optional<ApiError> refuse_more(const DocumentBytes& own, int64_t others, int64_t more,
                                    const RoomBounds& bounds, std::string_view what) {
  if (more > bounds.owner) {
    return ApiError{
        413,
        fmt::format("{} hold {} bytes of this request; at most {} are wanted", what, more, bounds.owner),
        {},
        "response_too_large",
        {}};
  }
  if (own.lasting + more > bounds.owner) {
    return ApiError{429,
                    fmt::format("{} hold {} bytes, and {} of this request do not fit; at most {} are wanted",
                                what, own.lasting, more, bounds.owner),
                    {},
                    "responses_full",
                    {},
                    1};
  }
  if (const int64_t room = room_of(own.sum(), others, bounds); own.lasting + more > room) {
    return ApiError{503,
                    fmt::format("{}, and those of others, hold {} bytes: {} of this request do not fit into "
                                "the {} that may be yours now",
                                what, own.lasting + others, more, room),
                    {},
                    "responses_full",
                    {}};
  }
  return std::nullopt;
}

int64_t surplus(const DocumentBytes& own, int64_t others, int64_t more, const RoomBounds& bounds) {
  return std::clamp<int64_t>(own.sum() + more - room_of(own.sum(), others, bounds), 0, own.passing);
}

RoomLedger::Held RoomLedger::held(const std::string& owner) const {
  std::lock_guard lock(mutex_);
  const auto found = by_owner_.find(owner);
  return {found == by_owner_.end() ? 0 : found->second, all_};
}

void RoomLedger::add(const std::string& owner, int64_t bytes) {
  std::lock_guard lock(mutex_);
  all_ += bytes;
  int64_t& own = by_owner_[owner];
  own += bytes;
  if (own == 0) by_owner_.erase(owner);
}

}  // namespace fulmar
