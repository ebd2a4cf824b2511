// The subcommands. Each add function adds its command to the parser; the one asked for sets what main runs.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace fulmar {

using Command = std::function<int()>;  // returns the exit code

void add_serve(CLI::App& app, Command& chosen);
void add_control(CLI::App& app, Command& chosen);
void add_fleet(CLI::App& app, Command& chosen);
void add_chat(CLI::App& app, Command& chosen);
void add_generate(CLI::App& app, Command& chosen);
void add_tokenize(CLI::App& app, Command& chosen);
void add_tokenizer(CLI::App& app, Command& chosen);
void add_inspect(CLI::App& app, Command& chosen);
void add_bench(CLI::App& app, Command& chosen);
void add_pull(CLI::App& app, Command& chosen);
void add_models(CLI::App& app, Command& chosen);
void add_convert(CLI::App& app, Command& chosen);
void add_merge(CLI::App& app, Command& chosen);
void add_quantize(CLI::App& app, Command& chosen);
void add_tune(CLI::App& app, Command& chosen);
void add_eval(CLI::App& app, Command& chosen);
void add_keys(CLI::App& app, Command& chosen);
void add_doctor(CLI::App& app, Command& chosen);

}  // namespace fulmar
