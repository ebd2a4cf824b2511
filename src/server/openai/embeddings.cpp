// Submits inputs as rows that embed and makes the answer of their vectors.
#include "server/openai/embeddings.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>

#include "net/json.h"
#include "net/json_writer.h"
#include "net/secret.h"
#include "server/core/warnings.h"
#include "server/generate/intake.h"
#include "server/generate/named_model.h"
#include "server/generate/writer_parts.h"

namespace fulmar {
namespace {

enum class AnswerShape : uint8_t { openai, ollama, ollama_one };

struct VectorForm {
  AnswerShape shape = AnswerShape::openai;
  bool base64 = false;
  int64_t dimensions = 0;  // number of leading dimensions to return; 0: all
};

std::string base64_of_floats(const std::vector<float>& numbers) {
  static_assert(std::endian::native == std::endian::little, "clients read little endian floats");
  return base64_of({reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float)});
}

void shorten_and_scale(std::vector<float>& vector, int64_t dimensions) {
  if (dimensions > 0) vector.resize(std::min(vector.size(), static_cast<size_t>(dimensions)));
  double square = 0;
  for (const float value : vector) square += static_cast<double>(value) * value;
  if (square <= 0) return;
  const double scale = 1.0 / std::sqrt(square);
  for (float& value : vector) value = static_cast<float>(value * scale);
}

// Gathers one vector per row; answers with the last.
class EmbeddingReply : public Listener {
 public:
  EmbeddingReply(std::shared_ptr<Call> call, ServedModelPtr model, std::string request_id, std::string name,
                 VectorForm form, size_t rows)
      : call_(std::move(call)),
        model_(std::move(model)),
        request_id_(std::move(request_id)),
        name_(std::move(name)),
        form_(form),
        vectors_(rows),
        unfinished_(rows) {}

  void watch_client() const {
    call_->exchange()->on_disconnect(
        [model = model_, owner = call_->owner(), id = request_id_] { model->engine->cancel(owner, id); });
  }

  void deliver(std::vector<Event> events) override {
    for (Event& event : events) {
      if (closed_ || event.kind != Event::Kind::finished) continue;
      if (event.reason == FinishReason::failed || is_cut(event.reason)) return fail(event);
      prompt_tokens_ += event.usage.prompt_tokens;
      adapter_ = event.usage.adapter;
      vectors_[static_cast<size_t>(event.index)] = std::move(event.embedding);
      if (--unfinished_ == 0) respond();
    }
  }

 private:
  void fail(const Event& event) {
    closed_ = true;
    if (unfinished_ > 1) model_->engine->cancel(call_->owner(), request_id_);
    if (event.error) return call_->fail(api_error(*event.error));
    if (event.reason == FinishReason::stopping) {
      return call_->fail({503, "Server is shutting down", {}, "shutting_down", {}});
    }
    call_->fail({409, "Request cancelled", {}, {}, {}});
  }

  void respond() {
    const auto width = static_cast<int64_t>(vectors_.front().size());
    if (form_.dimensions > width) {
      return call_->fail(
          bad_value(fmt::format("'dimensions' is {}; this model's vectors have {}", form_.dimensions, width),
                    "dimensions"));
    }
    for (std::vector<float>& vector : vectors_) shorten_and_scale(vector, form_.dimensions);
    call_->respond_json(form_.shape == AnswerShape::openai ? openai_list() : ollama_list());
  }

  static void write_numbers(JsonWriter& json, const std::vector<float>& vector) {
    json.begin_array();
    for (const float value : vector) json.value(value);
    json.end_array();
  }

  std::string ollama_list() const {
    JsonWriter json;
    json.begin_object();
    write_adapter(json, adapter_);
    if (form_.shape == AnswerShape::ollama_one) {
      json.key("embedding");
      write_numbers(json, vectors_.front());
      return json.end_object().take();
    }
    json.member("model", name_).key("embeddings").begin_array();
    for (const std::vector<float>& vector : vectors_) write_numbers(json, vector);
    const auto took = std::chrono::steady_clock::now() - call_->arrived();
    json.end_array().member("total_duration",
                            std::chrono::duration_cast<std::chrono::nanoseconds>(took).count());
    return json.member("load_duration", 0).member("prompt_eval_count", prompt_tokens_).end_object().take();
  }

  std::string openai_list() const {
    JsonWriter json = begin_list();
    for (size_t i = 0; i < vectors_.size(); ++i) {
      json.begin_object().member("object", "embedding").member("index", i).key("embedding");
      if (form_.base64) {
        json.value(base64_of_floats(vectors_[i]));
      } else {
        write_numbers(json, vectors_[i]);
      }
      json.end_object();
    }
    json.end_array().member("model", name_).key("usage").begin_object();
    json.member("prompt_tokens", prompt_tokens_).member("total_tokens", prompt_tokens_);
    write_adapter(json, adapter_);
    return json.end_object().end_object().take();
  }

  const std::shared_ptr<Call> call_;
  const ServedModelPtr model_;
  const std::string request_id_;
  const std::string name_;
  const VectorForm form_;
  std::vector<std::vector<float>> vectors_;
  size_t unfinished_;
  int64_t prompt_tokens_ = 0;
  std::shared_ptr<const AdapterLabel> adapter_;
  bool closed_ = false;
};

VectorForm read_form(Fields& fields, AnswerShape shape) {
  VectorForm form{.shape = shape};
  if (shape == AnswerShape::openai) form.base64 = fields.word(kEncodingFields["encoding_format"]) == "base64";
  if (shape != AnswerShape::ollama_one)
    form.dimensions = fields.integer(kVectorFields["dimensions"]).value_or(0);
  return form;
}

// Reads one input: a text to tokenize, or token ids to use as they are.
std::vector<int32_t> read_input(Fields& fields, const JsonValue& value, const ServedModel& model,
                                std::string_view name) {
  std::vector<int32_t> ids;
  if (value.is_string()) {
    ids = model.tokenizer->encode(value.as_string());
  } else if (value.is_array()) {
    for (const JsonValue& element : value.as_array()) {
      const std::optional<int64_t> id = element.is_number() ? lenient_int(element) : std::nullopt;
      if (!id || *id < 0 || *id >= model.vocabulary) {
        fields.fail_type(name, element, fmt::format("token ids of 0 to {} in it", model.vocabulary - 1));
        return ids;
      }
      ids.push_back(static_cast<int32_t>(*id));
    }
  } else {
    fields.fail_type(name, value, "a string, token ids, or an array of either");
  }
  if (ids.empty()) fields.fail(bad_value(fmt::format("'{}' holds an empty text", name), std::string(name)));
  return ids;
}

std::vector<std::vector<int32_t>> read_inputs(Fields& fields, const ServedModel& model,
                                              const ServerLimits& limits, const Field& field) {
  std::vector<std::vector<int32_t>> inputs;
  const std::string_view name = field.name;
  const JsonValue* value = fields.find(field);
  if (!holds_something(value)) {
    fields.fail(bad_value(fmt::format("'{}' is required", name), std::string(name), "missing_input"));
    return inputs;
  }
  if (!value->is_array() || value->as_array().front().is_number()) {
    inputs.push_back(read_input(fields, *value, model, name));
  } else {
    for (const JsonValue& element : value->as_array()) {
      inputs.push_back(read_input(fields, element, model, name));
      if (fields.failed()) break;
    }
  }
  int64_t tokens = 0;
  for (const auto& input : inputs) tokens += static_cast<int64_t>(input.size());
  const auto rows = static_cast<int64_t>(inputs.size());
  if (rows > limits.max_request_rows || tokens > limits.max_prompt_tokens) {
    fields.fail(bad_value(fmt::format("{} inputs of {} tokens; at most {} and {} are allowed", rows, tokens,
                                      limits.max_request_rows, limits.max_prompt_tokens),
                          "input"));
  }
  return inputs;
}

// What the rows of a request have in common.
struct EmbedJob {
  std::string name;  // of the model, as the client said it
  VectorForm form;
  AdapterUse adapter;
};

void submit_inputs(const std::shared_ptr<Call>& call, const ServedModelPtr& model,
                   std::vector<std::vector<int32_t>> inputs, const EmbedJob& job) {
  const std::string id = new_request_id("embd-");
  const auto reply = std::make_shared<EmbeddingReply>(call, model, id, job.name, job.form, inputs.size());
  Request request{.owner = call->owner().name,
                  .rows = {},
                  .listener = reply,
                  .endpoint = "embeddings",
                  .model = job.name};
  for (size_t i = 0; i < inputs.size(); ++i) {
    Ask& ask = request.rows.emplace_back();
    ask.request_id = id;
    ask.index = static_cast<int32_t>(i);
    ask.prompt = std::move(inputs[i]);
    ask.embed = true;
    ask.state.initial_state = model->initial_state;
    ask.adapter = job.adapter;
  }
  if (const Status accepted = model->engine->submit(std::move(request)); !accepted) {
    return call->fail(api_error(accepted.error()));
  }
  reply->watch_client();
}

void embed(std::shared_ptr<Call> call, AnswerShape shape) {
  Fields fields(call->body());
  const ServedModelPtr model = pick_model(*call, fields);
  if (!model) return call->fail(fields.fault());
  if (!model->mixture.empty()) fields.fail(bad_value("a mixture of states cannot embed", "model"));
  VectorForm form = read_form(fields, shape);
  const Field& input = shape == AnswerShape::ollama_one ? kEmbedOneFields["prompt"] : kEmbedFields["input"];
  auto inputs = read_inputs(fields, *model, call->service().options.limits, input);
  const std::string name = model_name(fields, model->id);
  if (call->unkept().fault) fields.fail(*call->unkept().fault);
  if (fields.failed()) return call->fail(fields.fault());
  if (call->service().ending) {
    return call->fail({503, "Server is shutting down", {}, "shutting_down", {}});
  }
  int64_t prompt_tokens = 0;
  for (const auto& ids : inputs) prompt_tokens += static_cast<int64_t>(ids.size());
  if (const auto refused = call->take_rows(static_cast<int64_t>(inputs.size()), prompt_tokens)) {
    return call->fail(*refused);
  }
  with_adapter_ready(call, model, [call, model, name, form, inputs](const AdapterUse& adapter) {
    submit_inputs(call, model, inputs, {name, form, adapter});
  });
}

}  // namespace

void embed_texts(std::shared_ptr<Call> call) { embed(std::move(call), AnswerShape::openai); }
void embed_for_ollama(std::shared_ptr<Call> call) {
  with_named_model(std::move(call),
                   [](std::shared_ptr<Call> it) { embed(std::move(it), AnswerShape::ollama); });
}

void embed_one_for_ollama(std::shared_ptr<Call> call) {
  with_named_model(std::move(call),
                   [](std::shared_ptr<Call> it) { embed(std::move(it), AnswerShape::ollama_one); });
}

}  // namespace fulmar
