// The input of a response as a list of items that clients can read again. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "net/json_value.h"
#include "net/url.h"

namespace fulmar {

// Returns the field `input` as a JSON array of items, each with an id; a text becomes a user's message.
std::string input_items_json(const std::string& response_id, const JsonValue& input);

// How a list is read.
struct ItemPage {
  int64_t limit = 20;
  bool ascending = false;
  std::string after;  // id of the item before the page; empty: from the beginning
};

// Returns {"object":"list","data":[...],"first_id","last_id","has_more"} for a page of input_items_json;
// nothing where no item has the id `page.after`.
std::optional<std::string> items_page_json(const std::string& items, const ItemPage& page);

}  // namespace fulmar
