// The table of routes.
#include "server/routes.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "base/check.h"
#include "net/path_pattern.h"
#include "server/adapters/adapter_routes.h"
#include "server/adapters/lora_routes.h"
#include "server/admin/admin_job.h"
#include "server/admin/loading.h"
#include "server/admin/mixture.h"
#include "server/admin/state_files.h"
#include "server/anthropic/messages.h"
#include "server/anthropic/messages_writer.h"
#include "server/generate/chat_intake.h"
#include "server/generate/constraint_fields.h"
#include "server/generate/input_kind.h"
#include "server/generate/intake.h"
#include "server/llama/llama.h"
#include "server/llama/llama_writer.h"
#include "server/native/batch.h"
#include "server/native/big_batch.h"
#include "server/native/branch_writer.h"
#include "server/native/branches.h"
#include "server/native/fim.h"
#include "server/native/native_batch.h"
#include "server/native/native_writer.h"
#include "server/native/steering.h"
#include "server/native/tokens.h"
#include "server/native/translate.h"
#include "server/native/v3.h"
#include "server/ollama/ollama.h"
#include "server/ollama/ollama_writer.h"
#include "server/openai/chat.h"
#include "server/openai/chat_writer.h"
#include "server/openai/completion_writer.h"
#include "server/openai/completions.h"
#include "server/openai/embeddings.h"
#include "server/openai/openai.h"
#include "server/responses/response_intake.h"
#include "server/responses/responses.h"
#include "server/responses/responses_writer.h"
#include "server/sessions/session_chat.h"
#include "server/sessions/session_objects.h"
#include "server/status/openapi.h"
#include "server/status/page.h"
#include "server/status/status.h"

namespace fulmar {
namespace {

constexpr Family kOpenai = Family::openai;
constexpr Family kNative = Family::native;
constexpr Family kAdmin = Family::admin;
constexpr Family kAnthropic = Family::anthropic;

// The fields of bodies that make text on every such route, and of those that several routes take. Streams of
// kCounting's tell figures on request.
constexpr FieldGroups kGenerating{&kModelFields,    &kAdapterFields,    &kRowFields,       &kStopFields,
                                  &kSamplingFields, &kConstraintFields, &kWhitespaceFields};
constexpr FieldGroups kCounting{{&kUsageFields}, kGenerating};
constexpr FieldGroups kChat{{&kMessageFields, &kChatFields, &kSplitFields, &kToolFields, &kThinkFields,
                             &kWordingFields, &kSessionFields, &kAccountFields},
                            kCounting};
constexpr FieldGroups kLightning{{&kMessageFields, &kContentsFields, &kChatFields, &kToolFields,
                                  &kThinkFields, &kWordingFields, &kSessionFields, &kAccountFields},
                                 kCounting};
constexpr FieldGroups kCompletion{{&kCompletionFields}, kCounting};
constexpr FieldGroups kRaw{{&kContentsFields}, kCounting};
constexpr FieldGroups kBigBatch{&kContentsFields,   &kNoiseFields,      &kModelFields,
                                &kAdapterFields,    &kRowFields,        &kStopFields,
                                &kConstraintFields, &kWhitespaceFields, &kUsageFields};
constexpr FieldGroups kHoles{{&kHoleFields}, kCounting};
constexpr FieldGroups kBranch{{&kBranchFields, &kContentsFields, &kSessionFields}, kCounting};
constexpr FieldGroups kTranslate{&kTranslateFields, &kModelFields, &kAdapterFields, &kConstraintFields,
                                 &kWhitespaceFields};
constexpr FieldGroups kResponse{
    {&kResponseFields, &kAccountFields, &kFlatToolFields, &kThinkFields, &kWordingFields}, kGenerating};
constexpr FieldGroups kMessages{&kConversationFields, &kMessagesFields,   &kModelFields,  &kAdapterFields,
                                &kRowFields,          &kSamplingFields,   &kToolFields,   &kThinkFields,
                                &kConstraintFields,   &kWhitespaceFields, &kWordingFields};
constexpr FieldGroups kOllamaChat{&kOllamaChatFields, &kOllamaFields,     &kAdapterFields,
                                  &kToolFields,       &kConstraintFields, &kWhitespaceFields};
constexpr FieldGroups kOllamaGenerate{&kOllamaGenerateFields, &kOllamaFields, &kAdapterFields,
                                      &kConstraintFields, &kWhitespaceFields};

// What several routes answer.
constexpr std::string_view kJson = "application/json";
constexpr Answers kSharedAnswers{{&kChatAnswer, &kCompletionAnswer, &kNativeAnswer},
                                 {&kChatEvent, &kCompletionAnswer, &kNativeEvent}};
constexpr Answers kNativeAnswers{&kNativeAnswer, &kNativeEvent, kJson, false, "409"};
constexpr Answers kLlamaAnswers{{&kLlamaLast, &kLlamaList}, {&kLlamaPart, &kLlamaLast}};
constexpr Answers kOllamaAnswers{&kOllamaAnswer, &kOllamaAnswer, kJson, true, "404"};

// What each handler does, the fields of its body and its answers.
constexpr RouteNote kNotes[] = {
    {chat_by_input, "Answers a conversation", kChat, kSharedAnswers},
    {complete_by_input, "Goes on with a text", kCompletion, kSharedAnswers},
    {list_models, "Models that are loaded", {}, {{&kModelList, &kAnthropicModelList}}, "beta"},
    {show_model, "One model", {}, {&kModel}},
    {list_model_names, "Names of models", {}, {&kModelNames}},
    {create_response,
     "Answers a turn and keeps it",
     kResponse,
     {&kResponseAnswer, &kResponseEvent, kJson, false, "404 409"}},
    {count_response_tokens, "Tokens of a request", kResponse, {&kResponseTokens}},
    {cancel_response,
     "Cancels a response in the background",
     {},
     {&kResponseAnswer, {}, kJson, false, "409"}},
    {list_input_items, "What a stored response was made from", {}, {&kInputItems}, "order after limit"},
    {show_response,
     "A stored response",
     {},
     {&kResponseAnswer},
     "!stream !starting_after !include !include[] !include_obfuscation"},
    {delete_response, "Forgets a stored response", {}, {&kResponseDeleted}},
    {create_message,
     "Answers a conversation, as Anthropic's API does",
     kMessages,
     {&kMessage, &kMessageEvent},
     "beta"},
    {count_message_tokens,
     "Tokens of a conversation",
     {&kConversationFields, &kModelFields, &kToolFields, &kThinkFields, &kWordingFields},
     {&kMessageCount},
     "beta"},
    {ollama_chat, "Answers a conversation, as Ollama does", kOllamaChat, kOllamaAnswers},
    {ollama_generate, "Answers a prompt, as Ollama does", kOllamaGenerate, kOllamaAnswers},
    {embed_for_ollama,
     "Vectors of texts, as Ollama gives them",
     {&kEmbedFields, &kVectorFields, &kModelFields, &kAdapterFields},
     {&kOllamaEmbeddings, {}, kJson, false, "409"}},
    {embed_one_for_ollama,
     "The vector of one text, as Ollama gives it",
     {&kEmbedOneFields, &kModelFields, &kAdapterFields},
     {&kOllamaEmbedding, {}, kJson, false, "409"}},
    {ollama_tags, "Models that are loaded", {}, {&kOllamaModels}},
    {ollama_running, "Models that run", {}, {&kOllamaModels}},
    {ollama_show, "What a model is", {&kOllamaNameFields}, {&kOllamaModel, {}, kJson, false, "404"}},
    {ollama_version, "Level of Ollama's API", {}, {&kOllamaVersion}},
    {ollama_pull,
     "Gets a model from a hub",
     {&kOllamaPullFields},
     {&kOllamaPull, &kOllamaPull, kJson, true, "404 409"}},
    {llama_completion,
     "Goes on with a text, as llama.cpp does",
     {{&kPromptFields}, kGenerating},
     kLlamaAnswers},
    {llama_infill,
     "Fills a hole, as llama.cpp does",
     {{&kInfillFields, &kPromptFields}, kGenerating},
     kLlamaAnswers},
    {apply_template,
     "What a conversation becomes",
     {&kMessageFields, &kToolFields, &kThinkFields, &kWordingFields, &kModelFields},
     {&kAppliedTemplate}},
    {lightning_chat,
     "Answers a conversation, as rwkv_lightning does",
     kLightning,
     {&kChatAnswer, &kChatEvent}},
    {v2_chat, "Goes on with raw prompts", kRaw, kNativeAnswers},
    {v3_chat,
     "Answers users or a conversation",
     {{&kContentsFields, &kMessageFields, &kThinkFields, &kWordingFields}, kCounting},
     kNativeAnswers},
    {batch_completions, "Goes on with raw prompts", kRaw, kNativeAnswers},
    {big_batch, "Goes on with many raw prompts", kBigBatch, kNativeAnswers},
    {fill_in_the_middle, "Fills holes", kHoles, kNativeAnswers},
    {translate_batch,
     "Translates texts",
     kTranslate,
     {&kTranslations, {}, kJson, false, "409", &kTranslations}},
    {session_chat,
     "Goes on with a session",
     {{&kContentsFields, &kSessionFields}, kCounting},
     kNativeAnswers},
    {branch_chat,
     "Goes on with a turn of a tree of sessions",
     kBranch,
     {&kNativeAnswer, {&kNativeEvent, &kBranchEvent}}},
    {list_sessions, "Sessions", {}, {&kSessionList}},
    {delete_session,
     "Forgets a session",
     {&kDropFields},
     {&kSessionGone, {}, kJson, false, {}, &kSessionGone}},
    {list_session_objects, "Sessions as objects", {}, {&kSessionObjects}, "after limit"},
    {export_session,
     "The state of a session as a file",
     {},
     {{}, {}, "application/octet-stream", false, "409"},
     "model"},
    {import_session,
     "Takes the state of a session from a file",
     {},
     {&kSessionObject, {}, kJson, false, "409"},
     "model"},
    {fork_session, "A copy of a session", {&kForkFields}, {&kSessionObject}, "model"},
    {drop_session, "Forgets a session", {}, {&kSessionDeleted, {}, kJson, false, "409"}, "model"},
    {load_model_file,
     "Loads a model",
     {&kLoadFields, &kDefaultsFields},
     {&kAdminDone, {}, kJson, false, "404 409 507"}},
    {remove_models, "Removes models", {&kLoadedFields}, {&kAdminDone, {}, kJson, false, "404"}},
    {load_state_file,
     "Loads a tuned state",
     {&kLoadStateFields, &kDefaultsFields},
     {&kAdminDone, {}, kJson, false, "404 409"}},
    {remove_states, "Removes tuned states", {&kUnloadFields}, {&kAdminDone}},
    {load_mixture,
     "Loads a mixture of states",
     {&kMembersFields, &kWeightsFields, &kDefaultsFields},
     {&kAdminDone, {}, kJson, false, "404 409"}},
    {set_mixture_weights,
     "Weighs a mixture",
     {&kWeightsFields, &kDefaultsFields},
     {&kAdminDone, {}, kJson, false, "404"}},
    {load_available_model,
     "Serves one of the available models",
     {&kAvailableFields},
     {&kModelLoaded, {}, kJson, false, "404 409"}},
    {upload_state_file, "Keeps a file with a tuned state", {}, {&kStateFile, {}, kJson, false, "404 409"}},
    {list_state_files, "Files with tuned states", {}, {&kStateFiles}},
    {delete_state_file,
     "Drops such a file",
     {&kStateFileFields},
     {&kStateFileGone, {}, kJson, false, "404", &kStateFileGone},
     "state_id"},
    {register_adapter,
     "Registers an adapter",
     {&kNewAdapterFields},
     {&kAdapterAdded, {}, kJson, false, "507"}},
    {list_adapters, "Adapters that are registered", {}, {&kAdapterList}},
    {forget_adapter, "Forgets an adapter", {&kForgetAdapterFields}, {&kAdapterForgotten}},
    {load_lora_adapter,
     "Registers an adapter, as vLLM does",
     {&kLoadLoraFields},
     {{}, {}, "text/plain", false, "404 507", &kLoraError}},
    {unload_lora_adapter,
     "Forgets an adapter, as vLLM does",
     {&kUnloadLoraFields},
     {{}, {}, "text/plain", false, "404", &kLoraError}},
    {list_lora_scales, "Adapters and their scales, as llama.cpp lists them", {}, {&kLoraScales}},
    {set_lora_scales, "Scales of requests that name no adapter", {}, {&kLoraScaled}},
    {embed_texts,
     "Vectors of texts",
     {&kEmbedFields, &kVectorFields, &kEncodingFields, &kModelFields, &kAdapterFields},
     {&kEmbeddingList, {}, kJson, false, "409"}},
    {tokenize, "Text to ids", {&kTokenizeFields, &kModelFields}, {&kTokens}},
    {detokenize, "Ids to text", {&kDetokenizeFields, &kModelFields}, {&kContent}},
    {count_tokens,
     "Tokens of a text or conversation",
     {&kCountFields, &kContentsFields, &kMessageFields, &kToolFields, &kThinkFields, &kWordingFields,
      &kModelFields},
     {&kTokenCount}},
    {cancel_request, "Cancels a request", {}, {&kCancelled}},
    {stop_requests, "Cancels requests", {&kRequestFields}, {&kSteered}},
    {pause_request, "Pauses a request", {&kRequestFields}, {&kSteered}},
    {resume_request,
     "Resumes a request",
     {&kResumeFields},
     {{}, {&kNativeEvent, &kBranchEvent}, kJson, false, "404"}},
    {health, "Whether it serves", {}, {&kHealth, {}, kJson, false, {}, &kUnavailable}},
    {health_of_model, "Whether it serves", {}, {&kModelHealth, {}, kJson, false, {}, &kUnavailable}},
    {health_check, "Whether it serves", {}, {&kHealthCheck}},
    {metrics, "Figures for Prometheus", {}, {{}, {}, "text/plain"}},
    {queue_status, "Requests that wait and run", {}, {&kQueue}},
    {engine_figures, "Figures of the engine", {}, {&kFigures}},
    {server_status, "Everything at a glance", {}, {&kServerStatus}},
    {slots, "Slots of states", {}, {&kSlots}},
    {properties, "Defaults and the chat template", {}, {&kProperties, {}, kJson, false, {}, &kUnavailable}},
    {openapi, "This document", {}, {&kDocument}},
    {page, "The chat page", {}, {{}, {}, "text/html"}},
    {page_asset, "A script, style or font of the pages", {}, {{}, {}, "*/*"}},
};

// If several entries fit a method and a path, the first counts.
constexpr Route kLines[] = {
    // One generating path for three kinds of input.
    {"POST", "/v1/chat/completions", kOpenai, Access::key, chat_by_input, false, family_of_input},
    {"POST", "/chat/completions", kOpenai, Access::key, chat_by_input, false, family_of_input},
    {"POST", "/v1/completions", kOpenai, Access::key, complete_by_input, false, family_of_input},
    {"POST", "/completions", kOpenai, Access::key, complete_by_input, false, family_of_input},
    {"GET", "/v1/models", kOpenai, Access::listing, list_models},
    {"GET", "/v1/models/*", kOpenai, Access::listing, show_model},
    {"GET", "/models", kAdmin, Access::listing, list_model_names},

    // Turns that are stored and can be continued.
    {"POST", "/v1/responses", kOpenai, Access::key, create_response},
    {"POST", "/v1/responses/input_tokens", kOpenai, Access::key, count_response_tokens},
    {"POST", "/v1/responses/*/cancel", kOpenai, Access::kept, cancel_response, true},
    {"GET", "/v1/responses/*/input_items", kOpenai, Access::kept, list_input_items, true},
    {"GET", "/v1/responses/*", kOpenai, Access::kept, show_response, true},
    {"DELETE", "/v1/responses/*", kOpenai, Access::kept, delete_response, true},

    // Anthropic's API.
    {"POST", "/v1/messages", kAnthropic, Access::key, create_message},
    {"POST", "/v1/messages/count_tokens", kAnthropic, Access::key, count_message_tokens},

    // Ollama's API.
    {"POST", "/api/chat", kNative, Access::key, ollama_chat},
    {"POST", "/api/generate", kNative, Access::key, ollama_generate},
    {"POST", "/api/embed", kNative, Access::key, embed_for_ollama},
    {"POST", "/api/embeddings", kNative, Access::key, embed_one_for_ollama},
    {"GET", "/api/tags", kNative, Access::listing, ollama_tags, true},
    {"GET", "/api/ps", kNative, Access::listing, ollama_running},
    {"POST", "/api/show", kNative, Access::key, ollama_show, true},
    {"GET", "/api/version", kNative, Access::open, ollama_version},
    {"POST", "/api/pull", kNative, Access::admin, ollama_pull},

    // llama.cpp's own routes.
    {"POST", "/completion", kOpenai, Access::key, llama_completion},
    {"POST", "/infill", kOpenai, Access::key, llama_infill},
    {"POST", "/apply-template", kOpenai, Access::key, apply_template},

    // rwkv_lightning's openai routes.
    {"POST", "/openai/v1/chat/completions", kOpenai, Access::key, lightning_chat},
    {"GET", "/openai/v1/models", kOpenai, Access::key, list_models},
    {"GET", "/openai/v1/models/*", kOpenai, Access::key, show_model},

    // Batches of raw prompts and what is rendered to them.
    {"POST", "/v2/chat/completions", kNative, Access::key, v2_chat},
    {"POST", "/v3/chat/completions", kNative, Access::key, v3_chat},
    {"POST", "/v1/batch/completions", kNative, Access::key, batch_completions},
    {"POST", "/big_batch/completions", kNative, Access::key, big_batch},
    {"POST", "/FIM/v1/batch-FIM", kNative, Access::key, fill_in_the_middle},
    {"POST", "/v1/advanced/fim", kNative, Access::key, fill_in_the_middle},
    {"POST", "/translate/v1/batch-translate", kNative, Access::key_or_query, translate_batch},
    {"POST", "/v1/advanced/translate", kNative, Access::key_or_query, translate_batch},

    // Sessions.
    {"POST", "/state/chat/completions", kNative, Access::key, session_chat},
    {"POST", "/multi_state/chat/completions", kNative, Access::key, branch_chat},
    {"POST", "/v1/advanced/multi_state", kNative, Access::key, branch_chat},
    {"POST", "/state/status", kNative, Access::kept, list_sessions, true},
    {"POST", "/v1/admin/state/status", kNative, Access::admin, list_sessions, true},
    {"POST", "/state/delete", kNative, Access::kept, delete_session, true},
    {"POST", "/v1/admin/state/delete", kNative, Access::admin, delete_session, true},

    // Sessions as objects.
    {"GET", "/v1/sessions", kOpenai, Access::kept, list_session_objects, true},
    {"GET", "/v1/sessions/*/state", kOpenai, Access::kept, export_session, true},
    {"PUT", "/v1/sessions/*/state", kOpenai, Access::kept, import_session, false, nullptr, true},
    {"POST", "/v1/sessions/*/fork", kOpenai, Access::kept, fork_session, true},
    {"DELETE", "/v1/sessions/*", kOpenai, Access::kept, drop_session, true},

    // Models and tuned states.
    {"POST", "/loadmodel", kAdmin, Access::admin, load_model_file},
    {"POST", "/removemodel", kAdmin, Access::admin, remove_models},
    {"POST", "/loadstatemodel", kAdmin, Access::admin, load_state_file},
    {"POST", "/removestatemodel", kAdmin, Access::admin, remove_states},
    {"POST", "/mrss_loadstatemodel", kAdmin, Access::admin, load_mixture},
    {"POST", "/mrss_set_gatingweight", kAdmin, Access::admin, set_mixture_weights},
    {"POST", "/v1/model/load", kOpenai, Access::admin, load_available_model},

    // Files with tuned states that clients send.
    {"POST", "/v1/state/upload", kNative, Access::listed, upload_state_file, false, nullptr, true},
    {"GET", "/v1/state/list", kNative, Access::kept, list_state_files},
    {"POST", "/v1/state/list", kNative, Access::kept, list_state_files},
    {"DELETE", "/v1/state/delete", kNative, Access::listed, delete_state_file},
    {"POST", "/v1/state/delete", kNative, Access::listed, delete_state_file},

    // Adapters, as rwkv_lightning, vLLM and llama.cpp manage them.
    {"GET", "/v1/adapters", kNative, Access::kept, list_adapters},
    {"POST", "/v1/adapters", kNative, Access::kept, register_adapter, true, nullptr, true},
    {"DELETE", "/v1/adapters", kNative, Access::kept, forget_adapter, true},
    {"POST", "/v1/load_lora_adapter", kOpenai, Access::kept, load_lora_adapter, true},
    {"POST", "/v1/unload_lora_adapter", kOpenai, Access::kept, unload_lora_adapter, true},
    {"GET", "/lora-adapters", kOpenai, Access::kept, list_lora_scales},
    {"POST", "/lora-adapters", kOpenai, Access::admin, set_lora_scales, false, nullptr, true},

    // Text and tokens.
    {"POST", "/v1/embeddings", kOpenai, Access::key, embed_texts},
    {"POST", "/tokenize", kNative, Access::key, tokenize},
    {"POST", "/detokenize", kNative, Access::key, detokenize},
    {"POST", "/v1/tokens/count", kNative, Access::key, count_tokens},

    // Steering requests under way.
    {"DELETE", "/v1/requests/*", kAdmin, Access::kept, cancel_request},
    {"POST", "/v1/server/stop", kNative, Access::admin, stop_requests},
    {"POST", "/v1/server/pause", kNative, Access::kept, pause_request, true},
    {"POST", "/v1/server/resume", kNative, Access::kept, resume_request, true},

    // Health and figures.
    {"GET", "/health", kOpenai, Access::open, health},
    {"GET", "/healthz", kOpenai, Access::open, health_of_model},
    {"GET", "/healthcheck", kOpenai, Access::open, health_check},
    {"GET", "/metrics", kOpenai, Access::status, metrics},
    {"GET", "/v1/queue/status", kAdmin, Access::status, queue_status},
    {"GET", "/v1/stats", kAdmin, Access::status, engine_figures},
    {"GET", "/v1/server/status", kNative, Access::status, server_status},
    {"GET", "/slots", kOpenai, Access::status, slots},
    {"GET", "/props", kOpenai, Access::status, properties},

    // This table for programs.
    {"GET", "/openapi.json", kOpenai, Access::open, openapi},

    // The page.
    {"GET", "/", kOpenai, Access::open, page},
    {"GET", "/assets/*", kOpenai, Access::open, page_asset},
};

// The entries with their notes. A missing note stops the program at its start.
const auto kRoutes = [] {
  std::array<Route, std::size(kLines)> routes{};
  for (size_t i = 0; i < routes.size(); ++i) {
    routes[i] = kLines[i];
    routes[i].note = std::find_if(std::begin(kNotes), std::end(kNotes),
                                  [&](const RouteNote& note) { return note.handle == kLines[i].handle; });
    FULMAR_CHECK(routes[i].note != std::end(kNotes), "a route without a note");
  }
  return routes;
}();

}  // namespace

std::span<const Route> routes() { return kRoutes; }

bool covers_administration(std::string_view pattern) {
  if (!is_route_pattern(pattern)) return false;
  pattern.remove_suffix(1);
  return std::any_of(std::begin(kRoutes), std::end(kRoutes), [&](const Route& route) {
    return route.access == Access::admin && route.path.starts_with(pattern);
  });
}

bool opens_a_route(std::string_view pattern) {
  if (!is_route_pattern(pattern)) return !methods_of(pattern).empty();
  pattern.remove_suffix(1);
  const std::string below = std::string(pattern) + "x";
  return std::any_of(std::begin(kRoutes), std::end(kRoutes), [&](const Route& route) {
    std::string_view argument;
    return route.access != Access::admin &&
           (route.path.starts_with(pattern) || path_fits(route.path, below, argument));
  });
}

std::string methods_of(std::string_view path) {
  std::string methods;
  for (const Route& route : kRoutes) {
    std::string_view argument;
    if (!path_fits(route.path, path, argument)) continue;
    methods.append(route.method).append(", ");
    if (route.method == "GET") methods += "HEAD, ";
  }
  return methods.empty() ? methods : methods + "OPTIONS";
}

RouteMatch find_route(std::string_view method, std::string_view path) {
  if (method == "HEAD") method = "GET";
  RouteMatch match;
  for (const Route& route : kRoutes) {
    std::string_view argument;
    if (!path_fits(route.path, path, argument)) continue;
    match.path_known = true;
    if (route.method != method) continue;
    match.route = &route;
    match.argument = argument;
    break;
  }
  return match;
}

}  // namespace fulmar
