// Long because it is one table: a line for every path.
#include "server/core/route_notes.h"

#include <map>

namespace fulmar {
namespace {

constexpr FieldNote kModel[] = {
    {"model", "string", "a loaded model; unknown names mean the default one unless --strict-model"},
    {"state_id", "string", "tuned state that the answer starts from"},
};
constexpr FieldNote kRows[] = {
    {"max_tokens", "integer", "most tokens of an answer"},
    {"max_completion_tokens", "integer", "goes before max_tokens"},
    {"temperature", "number", "0 takes the likeliest token"},
    {"include_stop_str_in_output", "boolean", "keeps the text that ended the answer"},
    {"ignore_eos", "boolean", "goes on to max_tokens whatever comes"},
    {"seed", "", "whole number of 0 to 2^64-1; equal seeds draw equally"},
    {"stream", "boolean", "answers in events"},
    {"stream_options", "object", "include_usage: figures in the last event"},
    {"chunk_size", "integer", "tokens of one event"},
    {"pad_zero", "boolean", "begins prompts with token 0"},
    {"use_prefix_cache", "boolean", "takes what an earlier prompt left"},
    {"speculate", "boolean", "false: no tokens of this answer are drafted"},
};
constexpr FieldNote kStops[] = {
    {"stop", "", "text or texts that end an answer"},
    {"stop_tokens", "", "ids or texts that end an answer"},
};
constexpr FieldNote kSampling[] = {
    {"top_p", "number", "share of probability that tokens are drawn from"},
    {"top_k", "integer", "how many tokens are drawn from; 0: all"},
    {"min_p", "number", "least probability, as a share of the likeliest token's"},
    {"presence_penalty", "number", "subtracted from tokens that have come"},
    {"frequency_penalty", "number", "subtracted for each time that a token has come"},
    {"penalty_decay", "number", "what penalties are multiplied with after each token"},
    {"alpha_presence", "number", "as presence_penalty"},
    {"alpha_frequency", "number", "as frequency_penalty"},
    {"alpha_decay", "number", "as penalty_decay"},
    {"temperature_last", "boolean", "temperature behind top_k and top_p"},
    {"logit_bias", "object", "token id to a number from -100 to 100"},
};
constexpr FieldNote kSession[] = {
    {"session_id", "string", "conversation that is continued"},
    {"raw_append", "boolean", "no end of turn between what was and what comes"},
    {"on_disconnect", "string", "\"keep\": a turn that broke off counts as far as it went"},
};
constexpr FieldNote kMessageList[] = {
    {"messages", "array", "the conversation: objects with role and content"},
    {"system", "string", "stands before the system messages"},
};
constexpr FieldNote kTools[] = {
    {"tools", "array", "functions that may be called"},
    {"tool_choice", "", "\"auto\", \"none\", \"required\" or a function"},
    {"parallel_tool_calls", "boolean", "several calls in one answer"},
};
constexpr FieldNote kThinking[] = {
    {"think_type", "string", "none, fast, free, en, enShort, enLong, preferChinese"},
    {"think", "boolean", "whether the model thinks first"},
    {"enable_think", "boolean", "likewise"},
    {"chat_template_kwargs", "object", "enable_thinking: likewise"},
    {"reasoning_effort", "string", "none, minimal, low, medium, high or xhigh"},
    {"reasoning", "", "effort: as reasoning_effort"},
    {"force_reasoning", "boolean", "keeps a think block from being closed at once"},
};
constexpr FieldNote kWords[] = {
    {"add_generation_prompt", "boolean", "false: the model goes on with the last turn"},
    {"user_name", "string", "of the role in the prompt"},
    {"assistant_name", "string", "likewise"},
    {"system_name", "string", "likewise"},
};
constexpr FieldNote kOpenaiChat[] = {
    {"n", "integer", "answers to one prompt"},
    {"logprobs", "boolean", "log-probabilities of the answer's tokens"},
    {"top_logprobs", "integer", "alternatives of each token, with logprobs"},
    {"response_format", "object", "text, json_object or json_schema"},
    {"prediction", "object", "type content, content: what the answer may be, taken as a draft"},
    {"modalities", "", "[\"text\"]"},
    {"metadata", "object", "ignored"},
    {"store", "boolean", "ignored"},
    {"user", "string", "ignored"},
    {"runtime", "string", "ignored: the weights are kept as they were loaded"},
    {"service_tier", "string", "answered with \"default\""},
};
constexpr FieldNote kSplit[] = {
    {"reasoning_format", "string", "auto: thinking apart from the answer; none: within it"},
};
constexpr FieldNote kCompletion[] = {
    {"prompt", "", "text, token ids, or an array of either; or send messages or contents"},
    {"suffix", "string", "what follows the hole that the model fills"},
    {"n", "integer", "answers to one prompt"},
    {"best_of", "integer", "drawn to choose the n likeliest from"},
    {"echo", "boolean", "the prompt before the answer"},
    {"logprobs", "integer", "alternatives of each token"},
};
constexpr FieldNote kContents[] = {{"contents", "", "raw prompts, an answer each"}};
constexpr FieldNote kNoise[] = {{"noise", "number", "of the draws"}};
constexpr FieldNote kBranch[] = {{"dialogue_idx", "integer", "turn that is gone on from"}};
constexpr FieldNote kInfill[] = {{"prefix", "", "texts before the holes"},
                                 {"suffix", "", "texts after them"}};
constexpr FieldNote kTranslate[] = {
    {"source_lang", "string", "code or name; auto"},
    {"target_lang", "string", "code or name"},
    {"text_list", "", "texts to translate"},
};
constexpr FieldNote kResponses[] = {
    {"input", "", "text, or items: messages, calls and their outputs"},
    {"instructions", "string", "system text"},
    {"previous_response_id", "string", "stored response that is gone on from"},
    {"max_output_tokens", "integer", "most tokens of the answer"},
    {"text", "object", "format: text, json_object or json_schema"},
    {"store", "boolean", "keeps the response; true by default"},
    {"background", "boolean", "answers at once; ask for the response again"},
    {"metadata", "object", "repeated in the answer"},
    {"reasoning", "object", "effort: none to xhigh; summary: thinking as a summary"},
    {"service_tier", "string", "checked"},
    {"include", "array", "reasoning.encrypted_content: there is none"},
};
constexpr FieldNote kMessages[] = {
    {"model", "string", "as on all routes"},
    {"messages", "array", "turns with text, tool_use and tool_result blocks"},
    {"max_tokens", "integer", "required"},
    {"system", "", "text or text blocks"},
    {"stop_sequences", "", "texts that end an answer"},
    {"tools", "array", "name, description, input_schema"},
    {"tool_choice", "object", "type: auto, any, tool or none"},
    {"thinking", "object", "type: enabled, adaptive or disabled"},
    {"stream", "boolean", "answers in named events"},
};
constexpr FieldNote kCountedMessages[] = {
    {"model", "string", "as on all routes"},
    {"messages", "array", "as on /v1/messages"},
    {"system", "", "text or text blocks"},
    {"tools", "array", "name, description, input_schema"},
    {"tool_choice", "object", "type: auto, any, tool or none"},
    {"thinking", "object", "type: enabled, adaptive or disabled"},
};
constexpr FieldNote kOllamaChat[] = {
    {"model", "string", "with or without a tag \":latest\""},
    {"messages", "array", "role, content, tool_calls"},
    {"tools", "array", "functions that may be called"},
    {"tool_choice", "", "\"auto\", \"none\", \"required\" or a function"},
    {"format", "", "\"json\" or a schema"},
    {"think", "", "true, false, or low, medium, high"},
    {"options", "object", "num_predict, temperature, top_k, top_p, min_p, seed, stop, penalties"},
    {"stream", "boolean", "lines of JSON; true by default"},
};
constexpr FieldNote kOllamaGenerate[] = {
    {"model", "string", "with or without a tag \":latest\""},
    {"prompt", "string", "what the user says"},
    {"suffix", "string", "what follows the hole that the model fills"},
    {"system", "string", "system text"},
    {"raw", "boolean", "the prompt as it is, without a template"},
    {"format", "", "\"json\" or a schema"},
    {"think", "", "true, false, or low, medium, high"},
    {"options", "object", "as on /api/chat"},
    {"stream", "boolean", "lines of JSON; true by default"},
};
constexpr FieldNote kOllamaBoth[] = {
    {"name", "string", "as model"},
    {"state_id", "string", "tuned state that the answer starts from"},
    {"chat_template_kwargs", "", "enable_thinking: whether the model thinks first"},
};
constexpr FieldNote kOllamaName[] = {{"model", "string", "its name"}};
constexpr FieldNote kOllamaPull[] = {{"model", "string", "OWNER/NAME or OWNER/NAME:FILE"},
                                     {"stream", "boolean", "lines on how it goes; true by default"}};
constexpr FieldNote kOllamaEmbed[] = {{"model", "string", "as on all routes"},
                                      {"input", "", "text or texts"},
                                      {"dimensions", "integer", "the first so many numbers"}};
constexpr FieldNote kOllamaEmbedOne[] = {{"model", "string", "as on all routes"},
                                         {"prompt", "string", "text"}};
constexpr FieldNote kLlama[] = {
    {"prompt", "", "text, token ids, a mixture of both, or several prompts"},
    {"n_predict", "integer", "most tokens; below 0: until it ends"},
    {"json_schema", "", "that the answer keeps to"},
};
constexpr FieldNote kLlamaInfill[] = {
    {"input_prefix", "string", "text before the hole"},
    {"input_suffix", "string", "text after it"},
    {"input_extra", "array", "filename and text of further files"},
    {"prompt", "string", "how the middle begins"},
    {"n_predict", "integer", "most tokens; below 0: until it ends"},
};
constexpr FieldNote kEmbeddings[] = {
    {"model", "string", "as on all routes"},
    {"input", "", "text, token ids, or an array of either"},
    {"encoding_format", "string", "float or base64"},
    {"dimensions", "integer", "the first so many numbers"},
};
constexpr FieldNote kTokenize[] = {{"content", "string", "text"},
                                   {"add_special", "boolean", "token 0 in front"},
                                   {"with_pieces", "boolean", "each id with its text"}};
constexpr FieldNote kDetokenize[] = {{"tokens", "array", "ids"}};
constexpr FieldNote kCount[] = {{"text", "string", "or messages, or contents"}};
constexpr FieldNote kRequest[] = {{"request_id", "string", "of the request; absent: the newest"}};
constexpr FieldNote kResume[] = {{"request_id", "string", "of the request"},
                                 {"max_tokens", "integer", "further ones"},
                                 {"chunk_size", "integer", "tokens of one event"}};
constexpr FieldNote kFork[] = {{"session_id", "string", "of the copy"}};
constexpr FieldNote kDropState[] = {{"session_id", "string", "which"},
                                    {"delete_prefix", "boolean", "its branches, too"}};
constexpr FieldNote kLoad[] = {
    {"model_filename", "string", "file or folder, or the name of an installed model"},
    {"model_viewname", "string", "name that it is served under"},
    {"model_strategy", "string", "how its weights are kept: fp16, int8, nf4, attn_int8_ffn_int4, ..."},
    {"vocab_filename", "string", "vocabulary"},
    {"template", "string", "text that ends turns besides the usual ones"},
    {"default_temperature", "number", "where a request says nothing"},
    {"default_top_p", "number", "likewise"}};
constexpr FieldNote kLoadState[] = {{"state_filename", "string", "file"},
                                    {"state_viewname", "string", "its name"}};
constexpr FieldNote kMixture[] = {{"state_filenames", "array", "files"},
                                  {"state_viewname", "string", "its name"},
                                  {"contain_originalstate", "boolean", "the zero state as a further member"}};
constexpr FieldNote kWeights[] = {{"state_viewname", "string", "which"},
                                  {"state_gatingweight", "array", "weights"}};
constexpr FieldNote kStateId[] = {{"state_id", "string", "which"}};

using FieldGroups = std::vector<std::span<const FieldNote>>;

const FieldGroups kChatFields{kModel, kRows,     kStops, kSampling,   kSession, kMessageList,
                              kTools, kThinking, kWords, kOpenaiChat, kSplit};
const FieldGroups kLightningFields{kModel, kRows,     kStops, kSampling,   kSession, kMessageList,
                                   kTools, kThinking, kWords, kOpenaiChat, kContents};
const FieldGroups kRawFields{kModel, kRows, kStops, kSampling, kContents};
const RouteNote kNotes[] = {
    {"/v1/chat/completions", "Answers a conversation", kChatFields},
    {"/chat/completions", "Answers a conversation", kChatFields},
    {"/openai/v1/chat/completions", "Answers a conversation, as rwkv_lightning does", kLightningFields},
    {"/v1/completions", "Goes on with a text", {kModel, kRows, kStops, kSampling, kCompletion}},
    {"/completions", "Goes on with a text", {kModel, kRows, kStops, kSampling, kCompletion}},
    {"/v1/models", "Models that are loaded", {}},
    {"/v1/models/*", "One model", {}},
    {"/models", "Names of models", {}},
    {"/openai/v1/models", "Models that are loaded", {}},
    {"/openai/v1/models/*", "One model", {}},
    {"/v1/responses",
     "Answers a turn and keeps it",
     {kModel, kResponses, kRows, kStops, kSampling, kTools, kThinking, kWords}},
    {"/v1/responses/input_tokens", "Tokens of a request", {kModel, kResponses, kTools}},
    {"/v1/responses/*", "A stored response", {}},
    {"/v1/responses/*/cancel", "Cancels a response in the background", {}},
    {"/v1/responses/*/input_items", "What a stored response was made from", {}},
    {"/v1/messages",
     "Answers a conversation, as Anthropic's API does",
     {kMessages, kRows, kSampling, kThinking, kWords}},
    {"/v1/messages/count_tokens", "Tokens of a conversation", {kCountedMessages}},
    {"/api/chat", "Answers a conversation, as Ollama does", {kOllamaChat, kOllamaBoth}},
    {"/api/generate", "Answers a prompt, as Ollama does", {kOllamaGenerate, kOllamaBoth}},
    {"/api/embed", "Vectors of texts, as Ollama gives them", {kOllamaEmbed}},
    {"/api/embeddings", "The vector of one text, as Ollama gives it", {kOllamaEmbedOne}},
    {"/api/tags", "Models that are loaded", {}},
    {"/api/ps", "Models that run", {}},
    {"/api/show", "What a model is", {kOllamaName}},
    {"/api/version", "Level of Ollama's API", {}},
    {"/api/pull", "Gets a model from a hub", {kOllamaPull}},
    {"/completion", "Goes on with a text, as llama.cpp does", {kModel, kLlama, kRows, kStops, kSampling}},
    {"/infill", "Fills a hole, as llama.cpp does", {kModel, kLlamaInfill, kRows, kStops, kSampling}},
    {"/apply-template", "What a conversation becomes", {kModel, kMessageList, kTools, kThinking, kWords}},
    {"/v2/chat/completions", "Goes on with raw prompts", kRawFields},
    {"/v3/chat/completions",
     "Answers users or a conversation",
     {kModel, kRows, kStops, kSampling, kContents, kMessageList, kThinking, kWords}},
    {"/v1/batch/completions", "Goes on with raw prompts", kRawFields},
    {"/big_batch/completions", "Goes on with many raw prompts", {kModel, kRows, kStops, kContents, kNoise}},
    {"/FIM/v1/batch-FIM", "Fills holes", {kModel, kRows, kStops, kSampling, kInfill}},
    {"/v1/advanced/fim", "Fills holes", {kModel, kRows, kStops, kSampling, kInfill}},
    {"/translate/v1/batch-translate", "Translates texts", {kTranslate}},
    {"/v1/advanced/translate", "Translates texts", {kTranslate}},
    {"/state/chat/completions",
     "Goes on with a session",
     {kModel, kRows, kStops, kSampling, kSession, kContents}},
    {"/multi_state/chat/completions",
     "Goes on with a turn of a tree of sessions",
     {kModel, kRows, kStops, kSampling, kBranch, kContents}},
    {"/v1/advanced/multi_state",
     "Goes on with a turn of a tree of sessions",
     {kModel, kRows, kStops, kSampling, kBranch, kContents}},
    {"/state/status", "Sessions", {}},
    {"/v1/admin/state/status", "Sessions", {}},
    {"/state/delete", "Forgets a session", {kDropState}},
    {"/v1/admin/state/delete", "Forgets a session", {kDropState}},
    {"/v1/sessions", "Sessions as objects", {}},
    {"/v1/sessions/*", "Forgets a session", {}},
    {"/v1/sessions/*/state", "The state of a session as a file", {}},
    {"/v1/sessions/*/fork", "A copy of a session", {kFork}},
    {"/loadmodel", "Loads a model", {kLoad}},
    {"/removemodel", "Removes models", {}},
    {"/loadstatemodel", "Loads a tuned state", {kLoadState}},
    {"/removestatemodel", "Removes tuned states", {}},
    {"/mrss_loadstatemodel", "Loads a mixture of states", {kMixture}},
    {"/mrss_set_gatingweight", "Weighs a mixture", {kWeights}},
    {"/v1/model/load", "Serves one of the available models", {kOllamaName}},
    {"/v1/state/upload", "Keeps a file with a tuned state", {}},
    {"/v1/state/list", "Files with tuned states", {}},
    {"/v1/state/delete", "Drops such a file", {kStateId}},
    {"/v1/adapters", "Adapters, which this server does not have", {}},
    {"/v1/adapters/*", "An adapter, which this server does not have", {}},
    {"/v1/embeddings", "Vectors of texts", {kEmbeddings}},
    {"/tokenize", "Text to ids", {kTokenize}},
    {"/detokenize", "Ids to text", {kDetokenize}},
    {"/v1/tokens/count", "Tokens of a text or conversation", {kCount}},
    {"/v1/requests/*", "Cancels a request", {}},
    {"/v1/server/stop", "Cancels requests", {kRequest}},
    {"/v1/server/pause", "Pauses a request", {kRequest}},
    {"/v1/server/resume", "Resumes a request", {kResume}},
    {"/health", "Whether it serves", {}},
    {"/healthz", "Whether it serves", {}},
    {"/healthcheck", "Whether it serves", {}},
    {"/metrics", "Figures for Prometheus", {}},
    {"/v1/queue/status", "Requests that wait and run", {}},
    {"/v1/stats", "Figures of the engine", {}},
    {"/v1/server/status", "Everything at a glance", {}},
    {"/slots", "Slots of states", {}},
    {"/props", "Defaults and the chat template", {}},
    {"/openapi.json", "This document", {}},
    {"/", "The chat page", {}},
    {"/assets/*", "A script, style or font of the pages", {}},
};

// Returns the notes by their path.
const std::map<std::string_view, RouteNote>& notes() {
  static const std::map<std::string_view, RouteNote> table = [] {
    std::map<std::string_view, RouteNote> by_path;
    for (const RouteNote& note : kNotes) by_path.emplace(note.path, note);
    return by_path;
  }();
  return table;
}

}  // namespace

const RouteNote* find_route_note(std::string_view path) {
  const auto found = notes().find(path);
  return found == notes().end() ? nullptr : &found->second;
}

std::vector<std::string_view> route_note_paths() {
  std::vector<std::string_view> paths;
  for (const auto& [path, note] : notes()) paths.push_back(path);
  return paths;
}

}  // namespace fulmar
