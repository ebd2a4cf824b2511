// Names of sessions as one text.
#include "cache/session_name.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "cache/write_behind_queue.h"

namespace fulmar {
namespace {

// All owners and ids of up to three of these characters: no two of them share a text, and each comes back.
TEST(SessionNames, AreOneTextThatNoOtherNameHas) {
  const std::string characters = {'a', ':', kOwnerEnd};
  std::vector<std::string> texts{""};
  for (size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].size() == 3) break;
    for (const char character : characters) texts.push_back(texts[i] + character);
  }
  std::set<std::string> seen;
  for (const std::string& owner : texts) {
    if (owner.find(kOwnerEnd) != std::string::npos) continue;
    for (const std::string& id : texts) {
      const std::string text = session_text(owner, id);
      EXPECT_TRUE(seen.insert(text).second) << owner << " " << id;
      EXPECT_EQ(session_name(text), (SessionName{owner, id}));
      EXPECT_TRUE(text.starts_with(owner_prefix(owner)));
    }
  }
  EXPECT_EQ(session_text("", "s:1"), "s:1");
}

TEST(SessionNames, AnErasureWithBranchesCoversNobodyElses) {
  // Names of owners hold no ":", as keys' names do not (is_key_name).
  const std::vector<std::string> owners{"", "a", "b", "a.", "*"};
  std::vector<std::string> ids{"a", "b", ":", {kOwnerEnd}};
  for (size_t i = 0; i < 4; ++i) {
    for (const char more : {'a', ':', kOwnerEnd}) ids.push_back(ids[i] + more);
  }
  for (const std::string& owner : owners) {
    for (const std::string& id : ids) {
      const SessionRange range{session_text(owner, id), true};
      for (const std::string& other : owners) {
        for (const std::string& theirs : ids) {
          if (other == owner) continue;
          EXPECT_FALSE(range.covers(session_text(other, theirs)))
              << owner << " " << id << " covers " << other << " " << theirs;
        }
      }
    }
  }
}

}  // namespace
}  // namespace fulmar
