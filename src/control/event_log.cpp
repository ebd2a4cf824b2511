// The ring and its JSON.
#include "control/event_log.h"

#include <utility>

#include "base/unix_time.h"
#include "net/json_writer.h"

namespace fulmar {

void EventLog::add(WorkerEvent event) {
  event.time = unix_time();
  std::lock_guard lock(mutex_);
  events_.push_back(std::move(event));
  if (events_.size() > most_events_) events_.pop_front();
}

std::string EventLog::json(double since) const {
  JsonWriter json;
  json.begin_object().key("events").begin_array();
  std::lock_guard lock(mutex_);
  for (const WorkerEvent& event : events_) {
    if (event.time <= since) continue;
    json.begin_object()
        .member("time", event.time)
        .member("worker_id", event.worker)
        .member("name", event.name)
        .member("kind", event.kind)
        .member("text", event.text)
        .key("lines")
        .begin_array();
    for (const std::string& line : event.lines) json.value(line);
    json.end_array().end_object();
  }
  return json.end_array().end_object().take();
}

}  // namespace fulmar
