// One recorded request for every line of the table of routes, with the exact bytes of its answer. A route
// without a record fails the last test.
#include <algorithm>
#include <set>

#include "server/admin_rig.h"
#include "server/routes.h"

namespace fulmar::testing {
namespace {

struct Record {
  const char* method;
  const char* target;
  const char* body;
  const char* answer;  // steady(): ids and times replaced
};

#define FULMAR_CHAT_BODY R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":3})"
#define FULMAR_CHAT_ANSWER                                                                                   \
  R"({"id":"chatcmpl-x","object":"chat.completion","created":1,"model":"tiny-rwkv7","choices":[{"index":0,)" \
  R"("message":{"role":"assistant","content":"Hello wor","refusal":null},"logprobs":null,)"                  \
  R"("finish_reason":"length"}],)"                                                                           \
  R"("usage":{"prompt_tokens":20,"completion_tokens":3,"total_tokens":23}})"
#define FULMAR_BATCH_ANSWER(ID, OBJECT)                                                   \
  R"({"id":")" ID R"(","object":")" OBJECT                                                \
  R"(","created":1,"model":"rwkv7","choices":[{"index":0,"message":{"role":"assistant",)" \
  R"("content":"Hello"},"finish_reason":"length"}],"usage":{"prompt_tokens":1,)"          \
  R"("completion_tokens":2,"total_tokens":3}})"
#define FULMAR_MODEL R"({"id":"tiny-rwkv7","object":"model","created":1,"owned_by":"fulmar"})"
#define FULMAR_QUEUE                                                                                         \
  R"({"waiting":0,"prefill":0,"decode":0,"total_active":0,"available_slots":8,"stats":{"total_requests":0,)" \
  R"("completed_requests":0,"rejected_requests":0,"cancelled_requests":0}})"
#define FULMAR_NO_RESPONSE                                                                            \
  R"({"error":{"message":"Response 'resp_0' not found","type":"invalid_request_error","param":null,)" \
  R"("code":"response_not_found"}})"
#define FULMAR_NO_SESSION(ID)                                                                       \
  R"({"error":{"message":"The session ')" ID R"(' does not exist","type":"invalid_request_error",)" \
  R"("param":"session_id","code":"session_not_found"}})"

#define FULMAR_LOADED(TEXT) \
  R"({"model":"tiny-rwkv7","created_at":"t",)" TEXT R"(,"done":true,"done_reason":"load"})"

constexpr const char* kSuccess = R"({"status":"success"})";
constexpr const char* kFim = R"({"prefix":["a"],"suffix":["b"],"max_tokens":2})";
constexpr const char* kTexts = R"({"source_lang":"en","target_lang":"ja","text_list":["a"]})";
constexpr const char* kTranslations =
    R"({"translations":[{"detected_source_lang":"en","text":"Hello world"}]})";
constexpr const char* kBranch = R"({"session_id":"s","dialogue_idx":0,"contents":["A"],"max_tokens":2})";
constexpr const char* kBranchAnswer =
    R"({"id":"rwkv7-multi-state","object":"chat.completion","created":1,"model":"rwkv7","choices":[{"index":0,)"
    R"("message":{"role":"assistant","content":"Hello"},"finish_reason":"length"}],"usage":{"prompt_tokens":1,)"
    R"("completion_tokens":2,"total_tokens":3},"dialogue_idx":1})";
constexpr const char* kNoSessions =
    R"({"status":"success","total_sessions":0,"l1_cache_count":0,"l2_cache_count":0,"database_count":0,)"
    R"("sessions":[]})";
constexpr const char* kNoSuchSession =
    R"({"status":"not_found","message":"Session s not found in database"})";
constexpr const char* kNoFiles = R"({"object":"list","data":[]})";
constexpr const char* kNotDeleted =
    R"({"object":"rwkv.state","state_id":"s","deleted":false,"error":"The state 's' does not exist"})";
constexpr const char* kCompletion =
    R"({"id":"cmpl-x","object":"text_completion","created":1,"model":"tiny-rwkv7","choices":[{"text":"Hello",)"
    R"("index":0,"logprobs":null,"finish_reason":"length"}],"usage":{"prompt_tokens":1,"completion_tokens":2,)"
    R"("total_tokens":3}})";

const Record kRecords[] = {
    {"POST", "/v1/chat/completions", FULMAR_CHAT_BODY, FULMAR_CHAT_ANSWER},
    {"POST", "/chat/completions", FULMAR_CHAT_BODY, FULMAR_CHAT_ANSWER},
    {"POST", "/v1/completions", R"({"prompt":"x","max_tokens":2})", kCompletion},
    {"POST", "/completions", R"({"prompt":"x","max_tokens":2})", kCompletion},
    {"GET", "/v1/models", "",
     R"({"object":"list","data":[)" FULMAR_MODEL R"(],"loaded":"tiny-rwkv7","available":["one","two"]})"},
    {"GET", "/v1/models/tiny-rwkv7", "", FULMAR_MODEL},
    {"GET", "/models", "", R"([{"object":"models","id":"tiny-rwkv7"}])"},
    {"POST", "/v1/responses", R"({"input":"hi","max_output_tokens":2,"temperature":0})",
     R"({"id":"resp_x","object":"response","created_at":1,"status":"incomplete","error":null,)"
     R"("incomplete_details":{"reason":"max_output_tokens"},"instructions":null,"max_output_tokens":2,)"
     R"("model":"tiny-rwkv7","output":[{"id":"msg_x","type":"message","status":"incomplete",)"
     R"("role":"assistant","content":[{"type":"output_text","text":"Hello","annotations":[]}]}],)"
     R"("parallel_tool_calls":true,"previous_response_id":null,"store":true,"temperature":0,)"
     R"("text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"reasoning":{"effort":null,"summary":null},"top_p":0.6,)"
     R"("truncation":"disabled","usage":{"input_tokens":20,"input_tokens_details":{"cached_tokens":0},)"
     R"("output_tokens":2,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":22},"metadata":{}})"},
    {"POST", "/v1/responses/input_tokens", R"({"input":"hi"})",
     R"({"object":"response.input_tokens","input_tokens":20})"},
    {"POST", "/v1/responses/resp_0/cancel", "", FULMAR_NO_RESPONSE},
    {"GET", "/v1/responses/resp_0/input_items", "", FULMAR_NO_RESPONSE},
    {"GET", "/v1/responses/resp_0", "", FULMAR_NO_RESPONSE},
    {"DELETE", "/v1/responses/resp_0", "", FULMAR_NO_RESPONSE},
    {"POST", "/v1/messages", FULMAR_CHAT_BODY,
     R"({"id":"msg_x","type":"message","role":"assistant","model":"tiny-rwkv7","content":[{"type":"text",)"
     R"("text":"Hello wor"}],"stop_reason":"max_tokens","stop_sequence":null,"usage":{"input_tokens":20,)"
     R"("cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":3}})"},
    {"POST", "/v1/messages/count_tokens", FULMAR_CHAT_BODY, R"({"input_tokens":20})"},
    {"POST", "/api/chat", R"({"messages":[]})",
     FULMAR_LOADED(R"("message":{"role":"assistant","content":""})")},
    {"POST", "/api/generate", "{}", FULMAR_LOADED(R"("response":"")")},
    {"POST", "/api/embed", "{}", R"({"error":"'input' is required"})"},
    {"POST", "/api/embeddings", R"({"prompt":"ab"})", R"({"embedding":[]})"},
    {"GET", "/api/version", "", R"({"version":"0.12.6"})"},
    {"POST", "/api/show", R"({"model":"none"})", R"({"error":"model 'none' not found"})"},
    {"POST", "/api/pull", R"({"model":"owner/tiny","stream":false})",
     R"({"status":"success","model":"tiny.safetensors"})"},
    {"POST", "/completion", "{}",
     R"({"error":{"message":"'prompt' is required","type":"invalid_request_error","param":"prompt",)"
     R"("code":"missing_input"}})"},
    {"POST", "/infill", "{}",
     R"({"error":{"message":"'input_prefix' and 'input_suffix' are required","type":"invalid_request_error",)"
     R"("param":"input_prefix","code":"missing_input"}})"},
    {"POST", "/apply-template", FULMAR_CHAT_BODY,
     R"({"prompt":"User: hi\n\nAssistant:","template":"world","tokens":20,"pad_zero":false,"stop":["\n\nUser:","\nUser:"],)"
     R"("warnings":["not kept on this route: 'max_tokens'"]})"},
    {"GET", "/v1/adapters", "",
     R"({"data":[],"ram_hits":0,"gpu_hits":0,"gpu_misses":0,"uploads":0,"h2d_ms":0.0,"ram_bytes":0,)"
     R"("gpu_bytes":0,"gpu_peak_bytes":0})"},
    {"POST", "/v1/adapters", R"({"path":"a"})", R"({"error":"missing adapter_id"})"},
    {"DELETE", "/v1/adapters", R"({"adapter_id":"a"})", R"({"deleted":true})"},
    {"POST", "/v1/load_lora_adapter", R"({"lora_name":"a"})",
     R"({"object":"error","message":"Both 'lora_name' and 'lora_path' must be provided.",)"
     R"("type":"InvalidUserInput","param":null,"code":400})"},
    {"POST", "/v1/unload_lora_adapter", R"({"lora_name":"a"})",
     R"({"object":"error","message":"The lora adapter 'a' cannot be found.","type":"NotFoundError",)"
     R"("param":null,"code":404})"},
    {"GET", "/lora-adapters", "", "[]"},
    {"POST", "/lora-adapters", "[]", R"({"success":true})"},
    {"POST", "/openai/v1/chat/completions", FULMAR_CHAT_BODY, FULMAR_CHAT_ANSWER},
    {"GET", "/openai/v1/models", "",
     R"({"object":"list","data":[)" FULMAR_MODEL R"(],"loaded":"tiny-rwkv7","available":["one","two"]})"},
    {"GET", "/openai/v1/models/tiny-rwkv7", "", FULMAR_MODEL},
    {"POST", "/v2/chat/completions", R"({"contents":["A"],"max_tokens":2})",
     FULMAR_BATCH_ANSWER("rwkv7-batch", "chat.completion")},
    {"POST", "/v3/chat/completions", R"({"messages":[{"role":"user","content":"Q"}],"max_tokens":2})",
     R"({"id":"rwkv7-batch-v3","object":"chat.completion","created":1,"model":"rwkv7","choices":[{"index":0,)"
     R"("message":{"role":"assistant","content":"Hello"},"finish_reason":"length"}],)"
     R"("usage":{"prompt_tokens":19,"completion_tokens":2,"total_tokens":21}})"},
    {"POST", "/v1/batch/completions", R"({"contents":["A"],"max_tokens":2})",
     FULMAR_BATCH_ANSWER("rwkv7-fast-batch", "chat.completion")},
    {"POST", "/big_batch/completions", R"({"contents":["A"],"max_tokens":2})",
     R"(data: {"id":"req-x","object":"chat.completion.chunk","created":1,"model":"rwkv7","choices":[{"index":0,)"
     R"("delta":{"content":"Hello"},"finish_reason":"length"}]})"
     "\n\ndata: [DONE]\n\n"},
    {"POST", "/FIM/v1/batch-FIM", kFim,
     R"({"id":"rwkv7-batch","object":"FIM.completion","created":1,"model":"rwkv7","choices":[{"index":0,)"
     R"("message":{"role":"assistant","content":"Hello"},"finish_reason":"length"}],)"
     R"("usage":{"prompt_tokens":38,"completion_tokens":2,"total_tokens":40}})"},
    {"POST", "/v1/advanced/fim", R"({"prefix":[],"suffix":[]})", R"({"error":"Empty prompts list"})"},
    {"POST", "/translate/v1/batch-translate", kTexts, kTranslations},
    {"POST", "/v1/advanced/translate", kTexts, kTranslations},
    {"POST", "/state/chat/completions", R"({"session_id":"s","contents":["A"],"max_tokens":2})",
     FULMAR_BATCH_ANSWER("rwkv7-batch", "chat.completion")},
    {"POST", "/multi_state/chat/completions", kBranch, kBranchAnswer},
    {"POST", "/v1/advanced/multi_state", kBranch, kBranchAnswer},
    {"POST", "/state/status", "", kNoSessions},
    {"POST", "/v1/admin/state/status", "", kNoSessions},
    {"POST", "/state/delete", R"({"session_id":"s"})", kNoSuchSession},
    {"POST", "/v1/admin/state/delete", R"({"session_id":"s"})", kNoSuchSession},
    {"GET", "/v1/sessions", "", R"({"object":"list","data":[],"has_more":false})"},
    {"GET", "/v1/sessions/s/state", "", FULMAR_NO_SESSION("s")},
    {"PUT", "/v1/sessions/s/state", "",
     R"json({"error":{"message":"saved state: this is not a Fulmar state (it does not begin with FULMARST)","type":"invalid_request_error","param":null,"code":"invalid_value"}})json"},
    {"POST", "/v1/sessions/s/fork", R"({"session_id":"t"})", FULMAR_NO_SESSION("s")},
    {"DELETE", "/v1/sessions/s", "", FULMAR_NO_SESSION("s")},
    {"POST", "/loadmodel", R"({"model_filename":"m","model_viewname":"M"})", kSuccess},
    {"POST", "/removemodel", "", kSuccess},
    {"POST", "/loadstatemodel", R"({"state_filename":"s","state_viewname":"S"})", kSuccess},
    {"POST", "/removestatemodel", R"({"dummy":" "})", kSuccess},
    {"POST", "/mrss_loadstatemodel", R"({"state_filenames":["a","b"],"state_viewname":"M"})", kSuccess},
    {"POST", "/mrss_set_gatingweight", R"({"state_viewname":"M","state_gatingweight":[1]})",
     R"({"detail":"The mixture 'M' is not loaded"})"},
    {"POST", "/v1/model/load", R"({"model":"one"})", R"({"object":"model","id":"one","loaded":true})"},
    {"POST", "/v1/state/upload", "", R"({"error":"Content-Type is ''; wanted multipart/form-data"})"},
    {"GET", "/v1/state/list", "", kNoFiles},
    {"POST", "/v1/state/list", "", kNoFiles},
    {"DELETE", "/v1/state/delete", R"({"state_id":"s"})", kNotDeleted},
    {"POST", "/v1/state/delete", R"({"state_id":"s"})", kNotDeleted},
    {"POST", "/v1/embeddings", R"({"input":"ab"})",
     R"({"object":"list","data":[{"object":"embedding","index":0,"embedding":[]}],"model":"tiny-rwkv7",)"
     R"("usage":{"prompt_tokens":2,"total_tokens":2}})"},
    {"POST", "/tokenize", R"({"content":"AB"})", R"({"tokens":[66,67]})"},
    {"POST", "/detokenize", R"({"tokens":[66,67]})", R"({"content":"AB"})"},
    {"POST", "/v1/tokens/count", R"({"text":"AB"})", R"({"tokens":2})"},
    {"DELETE", "/v1/requests/r", "", R"({"detail":"Request not found"})"},
    {"POST", "/v1/server/stop", "{}", R"({"ok":true,"stopped":false,"active_request":null})"},
    {"POST", "/v1/server/pause", "{}", R"({"ok":true,"paused":false,"active_request":null})"},
    {"POST", "/v1/server/resume", R"({"request_id":"r"})", R"({"error":"Paused request not found"})"},
    {"GET", "/health", "", R"({"status":"ok","queue":)" FULMAR_QUEUE R"(,"timestamp":1})"},
    {"GET", "/healthz", "", R"({"status":"ok","model":"tiny-rwkv7","runtime":"f32"})"},
    {"GET", "/healthcheck", "", R"({"message":"ok","status_code":200})"},
    {"GET", "/v1/queue/status", "", FULMAR_QUEUE},
    {"GET", "/v1/stats", "",
     R"({"total_tokens_generated":0,"total_prefill_tokens":0,"iterations":0,"start_time":1785945600,)"
     R"("queue_status":)" FULMAR_QUEUE
     R"(,"pool_stats":{"max_batch_size":8,"available_slots":8,"active_count":0,)"
     R"("status_counts":{"FREE":8,"PREFILL":0,"DECODE":0,"PENDING":0}},"batch_optimizer":)"
     R"({"current_max_batch_size":8,"current_prefill_chunk_size":256,"iteration_count":0,"oom_count":0}})"},
    {"GET", "/props", "",
     R"json({"default_generation_settings":{"n_predict":4096,"temperature":1,"top_k":20,"top_p":0.6,"presence_penalty":1,"frequency_penalty":0.1},"total_slots":8,"model_path":"/models/tiny-rwkv7.pth","chat_template":"User: {content}\n\nAssistant:","build_info":"x"})json"},
};

TEST(Recorded, EveryRouteAnswersTheSameBytes) {
  for (const Record& record : kRecords) {
    AdminRig rig;
    const Reply reply = rig.send(record.method, record.target, record.body);
    EXPECT_EQ(steady(reply.body), record.answer) << record.method << " " << record.target;
  }
}

TEST(Recorded, NoRouteIsMissing) {
  // Their answers are pages, lists of slots and figures: other tests look at what matters of them.
  const std::set<std::string_view> looked_at_elsewhere{
      "/metrics", "/v1/server/status", "/slots", "/openapi.json", "/", "/assets/*", "/api/tags", "/api/ps"};
  for (const Route& route : routes()) {
    if (looked_at_elsewhere.contains(route.path)) continue;
    const bool found = std::any_of(std::begin(kRecords), std::end(kRecords), [&](const Record& record) {
      return find_route(record.method, record.target).route == &route;
    });
    EXPECT_TRUE(found) << route.method << " " << route.path;
  }
}

}  // namespace
}  // namespace fulmar::testing
