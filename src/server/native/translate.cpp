// Makes a prompt of each text, with fixed sampling, and returns the translations in order.
#include "server/native/translate.h"

#include "base/strip.h"
#include "server/generate/constraint_fields.h"
#include "server/generate/intake.h"
#include "server/generate/writer_parts.h"
#include "text/translation.h"

namespace fulmar {
namespace {

constexpr GenerationDefaults kTranslateDefaults{.max_tokens = 2048,
                                                .temperature = 1.0,
                                                .top_k = 1,
                                                .top_p = 0.0,
                                                .presence = 0.0,
                                                .frequency = 0.0,
                                                .decay = 0.996,
                                                .stops = DefaultStops::end_only,
                                                .chunk_size = 1};

// One input text; only those that are not blank run.
struct Item {
  std::string text;
  std::string source;  // the code as reported
};

class TranslationWriter : public Writer {
 public:
  // Writes the answers of these items. `as_is`: answers are constrained, so nothing is trimmed from them.
  TranslationWriter(std::vector<Item> items, bool as_is) : items_(std::move(items)), as_is_(as_is) {}

  Family family() const override { return Family::native; }
  bool tells_cuts() const override { return false; }
  void write_opening(int32_t, std::vector<std::string>&) override {}
  void write_piece(const Piece&, std::vector<std::string>&) override {}
  void write_closing(const Totals&, std::vector<std::string>&) override {}

  std::string write_whole(std::vector<Choice> choices, const Totals&) override {
    JsonWriter json;
    json.begin_object().key("translations").begin_array();
    size_t next = 0;
    for (const Item& item : items_) {
      std::string_view text;
      if (!stripped(item.text).empty()) {
        const std::string& answer = choices[next++].content;
        text = as_is_ ? answer : own_translation(answer, item.text);
      }
      json.begin_object().member("detected_source_lang", item.source).member("text", text).end_object();
    }
    return json.end_array().end_object().take();
  }

  std::string write_failure(const ApiError& error) override {
    return error.status == 500 ? R"({"translations":[]})" : Writer::write_failure(error);
  }

 private:
  const std::vector<Item> items_;
  const bool as_is_;
};

std::vector<Item> read_items(Fields& fields) {
  const std::string source = fields.text(kTranslateFields["source_lang"]).value_or("auto");
  const auto texts = fields.texts(kTranslateFields["text_list"]);
  if (!fields.present(kTranslateFields["target_lang"])) fields.fail(bad_value("Missing target_lang"));
  if (!fields.failed() && texts.empty()) fields.fail(bad_value("Empty text_list"));
  std::vector<Item> items;
  for (const std::string& text : texts) {
    const bool guess = source.empty() || source == "auto";
    items.push_back({text, guess ? std::string(guess_language(text)) : source});
  }
  return items;
}

}  // namespace

void translate_batch(std::shared_ptr<Call> call) {
  call->set_family(Family::native);
  Fields fields(call->body());
  std::vector<Item> items = read_items(fields);
  const std::string target = fields.text(kTranslateFields["target_lang"]).value_or(std::string());
  Submission submission;
  if (!fields.failed()) submission.model = pick_model(*call, fields);
  if (fields.failed()) return call->fail(fields.fault());

  // Sampling is fixed: nothing of it is read from the body but what constrains the answers.
  const JsonValue nothing{JsonObject{}};
  Fields none(nothing);
  submission.generation =
      read_generation(none, kTranslateDefaults, *submission.model, call->service().options.limits);
  submission.generation.answer = read_constraint(fields);
  if (fields.failed()) return call->fail(fields.fault());
  std::vector<std::string> texts, sources;
  for (const Item& item : items) {
    if (stripped(item.text).empty()) continue;
    texts.push_back(item.text);
    sources.push_back(item.source);
    submission.prompts.push_back(
        submission.model->tokenizer->encode(render_translation(item.source, target, item.text)));
  }
  submission.generation.stop.texts = translation_stops(texts, sources, target);
  auto writer =
      std::make_unique<TranslationWriter>(std::move(items), !submission.generation.answer.any_text());
  if (submission.prompts.empty()) return call->respond_json(writer->write_whole({}, {}));
  submission.model_name = model_name(fields, submission.model->id);
  submission.endpoint = "translate";
  submission.request_id = new_request_id("translate-");
  submit(std::move(call), std::move(submission), std::move(writer));
}

}  // namespace fulmar
