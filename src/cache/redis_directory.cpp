// Records as hashes "fulmar:worker:<name>" with an expiry.
#include <algorithm>
#include <charconv>
#include <utility>

#include "cache/worker_directory.h"

namespace fulmar {
namespace {

constexpr std::string_view kPrefix = "fulmar:worker:";
constexpr std::string_view kScanned = "500";  // keys looked at per round trip

class RedisDirectory final : public WorkerDirectory {
 public:
  explicit RedisDirectory(const RedisAddress& address) : link_(address) {}

  Status announce(const WorkerRecord& worker, std::chrono::milliseconds time_to_live) override {
    const std::string key = std::string(kPrefix) + worker.name;
    const std::string port = std::to_string(worker.port), lifetime = std::to_string(time_to_live.count());
    FULMAR_TRY(link_.transact({{"HSET", key, "host", worker.host, "port", port, "model", worker.model,
                                "draining", worker.draining ? "1" : "0"},
                               {"PEXPIRE", key, lifetime}}));
    return {};
  }

  Status withdraw(const std::string& name) override {
    const std::string key = std::string(kPrefix) + name;
    FULMAR_TRY(link_.call({"DEL", key}));
    return {};
  }

  Result<std::vector<WorkerRecord>> workers() override {
    FULMAR_ASSIGN(const auto keys, all_keys());
    std::vector<WorkerRecord> records;
    for (const std::string& key : keys) {
      FULMAR_ASSIGN(const RedisReply reply, link_.call({"HMGET", key, "host", "port", "model", "draining"}));
      if (reply.list.size() != 4 || reply.list[0].kind != RedisReply::Kind::text) continue;  // just expired
      WorkerRecord record{.name = key.substr(kPrefix.size()),
                          .host = reply.list[0].text,
                          .model = reply.list[2].text,
                          .draining = reply.list[3].text == "1"};
      const std::string& port = reply.list[1].text;
      std::from_chars(port.data(), port.data() + port.size(), record.port);
      if (record.port != 0) records.push_back(std::move(record));
    }
    return records;
  }

 private:
  Result<std::vector<std::string>> all_keys() {
    std::vector<std::string> keys;
    std::string cursor = "0";
    const std::string pattern = std::string(kPrefix) + "*";
    do {
      FULMAR_ASSIGN(const RedisReply page, link_.call({"SCAN", cursor, "MATCH", pattern, "COUNT", kScanned}));
      if (page.list.size() != 2) return Error{ErrorKind::corrupt, "Redis: SCAN answered without a cursor"};
      cursor = page.list[0].text;
      for (const RedisReply& key : page.list[1].list) keys.push_back(key.text);
    } while (cursor != "0");
    std::sort(keys.begin(), keys.end());
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    return keys;
  }

  RedisLink link_;
};

}  // namespace

std::unique_ptr<WorkerDirectory> redis_directory(const RedisAddress& address) {
  return std::make_unique<RedisDirectory>(address);
}

}  // namespace fulmar
