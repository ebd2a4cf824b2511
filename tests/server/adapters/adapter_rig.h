// A server over a scripted engine whose model takes adapters, and files of adapters that fit it.
#pragma once

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "files/identify.h"
#include "files/synthetic.h"
#include "net/json_writer.h"
#include "server/adapters/adapter_shelf.h"
#include "server/server_rig.h"

namespace fulmar::testing {

// The sizes of the model: two layers of 64 channels.
inline SyntheticSpec adapted_spec() {
  SyntheticSpec spec{.version = 7, .n_layer = 2, .n_head = 2, .head_size = 32, .vocab = 256};
  spec.rank_w = spec.rank_a = spec.rank_v = spec.rank_g = 8;
  return spec;
}

inline constexpr const char* kBaseDigest = "00000000000000000000000000000000000000000000000000000000000000aa";

inline AdapterBase adapter_base(const SyntheticSpec& spec = adapted_spec()) {
  const auto checkpoint = synthetic_checkpoint(spec);
  return {base_shapes(*checkpoint, *identify(*checkpoint)),
          []() -> Result<std::string> { return std::string(kBaseDigest); },
          [spec]() -> Result<std::unique_ptr<Checkpoint>> { return synthetic_checkpoint(spec); }};
}

// A tensor of f32 with one value everywhere.
struct PlainTensor {
  std::string name;
  std::vector<int64_t> shape;
  float value = 0;
};

// A file of safetensors.
inline std::string safetensors(const std::vector<PlainTensor>& tensors) {
  JsonWriter head;
  head.begin_object();
  std::string data;
  for (const PlainTensor& tensor : tensors) {
    size_t count = 1;
    head.key(tensor.name).begin_object().member("dtype", "F32").key("shape").begin_array();
    for (const int64_t size : tensor.shape) {
      head.value(size);
      count *= static_cast<size_t>(size);
    }
    head.end_array().key("data_offsets").begin_array().value(data.size());
    for (size_t i = 0; i < count; i++) {
      data.append(reinterpret_cast<const char*>(&tensor.value), sizeof(float));
    }
    head.value(data.size()).end_array().end_object();
  }
  std::string text = head.end_object().take();
  const uint64_t size = text.size();
  std::string file(sizeof size, '\0');
  std::memcpy(file.data(), &size, sizeof size);
  return file + text + data;
}

// RWKV-PEFT's LoRA of rank 2 on one matrix, which differs by `value`; it needs alpha or scale.
inline std::string lora_file(float value, int64_t width = 64) {
  return safetensors(
      {{"blocks.0.att.key.lora_A", {2, width}, value}, {"blocks.0.att.key.lora_B", {64, 2}, 1}});
}
// RWKV-PEFT's MiSS of rank 2, whose scale is 1.
inline std::string miss_file(float value) {
  return safetensors({{"blocks.0.att.key.disha", {2, 64}, value}});
}

// A body of multipart/form-data: fields have no file name.
struct FormField {
  std::string name, filename, content;
};
inline std::string form_body(const std::vector<FormField>& fields) {
  std::string body;
  for (const FormField& field : fields) {
    body += "--X\r\nContent-Disposition: form-data; name=\"" + field.name + "\"";
    if (!field.filename.empty()) body += "; filename=\"" + field.filename + "\"";
    body += "\r\n\r\n" + field.content + "\r\n";
  }
  return body + "--X--\r\n";
}

class AdapterRig : public ServerRig {
 public:
  explicit AdapterRig(ServerOptions options = {}, Play play = nullptr)
      : ServerRig(with_root(std::move(options)), std::move(play), [](ServedModel& facts) {
          facts.adapters = std::make_shared<AdapterShelf>(*facts.engine, adapter_base());
        }) {}

  // Writes a file below the folder of adapters and returns its name there.
  static std::string keep(const std::string& name, const std::string& bytes) {
    std::filesystem::create_directories((root() / name).parent_path());
    std::ofstream(root() / name, std::ios::binary) << bytes;
    return name;
  }
  Reply upload(const std::vector<FormField>& fields, Headers headers = {}) const {
    headers.add("Content-Type", "multipart/form-data; boundary=X");
    return post("/v1/adapters", form_body(fields), headers);
  }
  Reply upload(const std::string& id, const std::string& file, Headers headers = {}) const {
    return upload({{"adapter_id", "", id}, {"file", "a.safetensors", file}}, std::move(headers));
  }
  // What GET /v1/adapters says, without what differs from run to run.
  std::string listed(const Headers& headers = {}) const { return get("/v1/adapters", headers).body; }

  static const std::filesystem::path& root() {
    static const std::filesystem::path folder =
        std::filesystem::path(::testing::TempDir()) / ("fulmar_adapters_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder);
    return folder;
  }

 private:
  static ServerOptions with_root(ServerOptions options) {
    options.adapters.root = root().string();
    return options;
  }
};

inline std::string error_text(const Reply& reply) {
  const auto json = parse_json(reply.body);
  const JsonValue* error = json.ok() ? json->find("error") : nullptr;
  if (!error) return reply.body;
  return error->is_string() ? error->as_string() : error->find("message")->as_string();
}

}  // namespace fulmar::testing
