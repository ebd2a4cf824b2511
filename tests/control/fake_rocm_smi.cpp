// AMD's management library of two GPUs, as its documentation describes it. The second does not tell what it
// draws nor how busy it is.
#include <cstdint>
#include <cstring>

namespace {

constexpr int kSuccess = 0, kInvalid = 1, kNotSupported = 2;
constexpr uint64_t kMiB = uint64_t{1} << 20;

}  // namespace

extern "C" {

int rsmi_init(uint64_t) { return kSuccess; }
int rsmi_shut_down() { return kSuccess; }
int rsmi_num_monitor_devices(uint32_t* count) {
  *count = 2;
  return kSuccess;
}
int rsmi_dev_name_get(uint32_t device, char* name, size_t length) {
  std::strncpy(name, device == 1 ? "Second GPU" : "First GPU", length);
  return kSuccess;
}
int rsmi_dev_memory_total_get(uint32_t, int kind, uint64_t* bytes) {
  *bytes = 2000 * kMiB;
  return kind == 0 ? kSuccess : kInvalid;
}
int rsmi_dev_memory_usage_get(uint32_t, int kind, uint64_t* bytes) {
  *bytes = 150 * kMiB;
  return kind == 0 ? kSuccess : kInvalid;
}
int rsmi_dev_busy_percent_get(uint32_t device, uint32_t* percent) {
  *percent = 42;
  return device == 1 ? kNotSupported : kSuccess;
}
int rsmi_dev_temp_metric_get(uint32_t, uint32_t, int, int64_t* millidegrees) {
  *millidegrees = 37'500;
  return kSuccess;
}
int rsmi_dev_power_ave_get(uint32_t device, uint32_t, uint64_t* microwatts) {
  *microwatts = 251'900'000;
  return device == 1 ? kNotSupported : kSuccess;
}
}
