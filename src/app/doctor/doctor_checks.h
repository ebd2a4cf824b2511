// The judgements of `fulmar doctor`: from facts about a machine to findings, a line each with advice. Pure;
// doctor_facts.cpp gathers the facts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fulmar {

struct GpuFact {
  std::string name;     // "cuda:0 (NVIDIA H200)"
  size_t total = 0;     // bytes
  size_t free = 0;      // bytes
  std::string refusal;  // why it cannot be used; empty: it can
};

struct FolderFact {
  std::string purpose;  // "models", "sessions"
  std::string path;
  bool writable = false;
  uint64_t free = 0;  // bytes
};

struct ModelFact {
  std::string path;     // empty: not found
  std::string what;     // "RWKV-7, 1.5 billion parameters"
  std::string problem;  // why it would not be served; empty: it would
  size_t needs = 0;     // bytes of weights and working memory, on the host
};

struct MachineFacts {
  std::string program;          // version and commit
  std::string instruction_set;  // of the kernels in use: "AVX-512"
  int threads = 0;              // that this process may use
  size_t memory_free = 0;       // bytes
  std::string gpu_targets;      // compute capabilities that the build has kernels for; "none"
  bool amd = false;             // whether the build is for AMD's cards instead of NVIDIA's
  std::string driver;           // version of their driver; empty: none
  std::vector<GpuFact> gpus;
  bool sum_library = false;   // whether NCCL, or RCCL, was found; only asked with several GPUs
  bool gemm_library = false;  // whether cuBLASLt, or hipBLASLt or rocBLAS, was found
  std::string host;
  int port = 0;
  std::string port_problem;  // why nothing can listen there; empty: it is free
  std::vector<FolderFact> folders;
  uint64_t open_files = 0;  // limit of this process
  ModelFact model;
  std::string world_vocabulary;  // path; empty: not imported
  std::string certificates;      // file of trusted certificates; empty: none was found
};

enum class Health { fine, note, bad };  // bad: `fulmar serve` would fail or be of no use

struct Finding {
  Health health = Health::fine;
  std::string name;
  std::string text;    // what was found
  std::string advice;  // what to do; empty: nothing
};

std::vector<Finding> examine(const MachineFacts& facts);

// Returns "ok    cpu           AVX-512, 8 threads" or "bad   port          ...: what to do".
std::string line_of(const Finding& finding);

}  // namespace fulmar
