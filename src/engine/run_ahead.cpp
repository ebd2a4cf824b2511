#include "engine/run_ahead.h"

namespace fulmar {

bool runs_ahead(const Sequence& sequence) {
  const Ask& ask = sequence.ask;
  const bool by_id_alone = !ask.mask && ask.stop.texts.empty();
  const bool state_left_alone =
      sequence.more_slots.empty() && sequence.snapshot_points.empty() && !sequence.rewind_point;
  return sequence.phase == Sequence::Phase::decode && by_id_alone && state_left_alone && !sequence.finish &&
         !sequence.request->cancel_requested;
}

bool goes_on(const Sequence& sequence) {
  return static_cast<int64_t>(sequence.drawn.size()) + 1 < sequence.ask.max_tokens;
}

}  // namespace fulmar
