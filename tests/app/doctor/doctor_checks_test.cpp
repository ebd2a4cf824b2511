// What `fulmar doctor` says of machines that this one is not.
#include "app/doctor/doctor_checks.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace fulmar {
namespace {

MachineFacts sound() {
  MachineFacts facts;
  facts.program = "fulmar 1.2.3, commit abc";
  facts.instruction_set = "AVX-512";
  facts.threads = 8;
  facts.memory_free = size_t{16} << 30;
  facts.gpu_targets = "none";
  facts.host = "127.0.0.1";
  facts.port = 8000;
  facts.folders = {{"models", "/models", true, uint64_t{100} << 30},
                   {"sessions", "/here", true, uint64_t{100} << 30}};
  facts.open_files = 65536;
  facts.model = {"/m.pth", "RWKV-7", "", size_t{1} << 30};
  facts.world_vocabulary = "/v.txt";
  facts.certificates = "/c.pem";
  return facts;
}

MachineFacts with_gpu() {
  MachineFacts facts = sound();
  facts.gpu_targets = "80, 90";
  facts.driver = "580.1";
  facts.gpus = {{"cuda:0 (A)", size_t{80} << 30, size_t{70} << 30, ""}};
  facts.gemm_library = true;
  return facts;
}

// The lines that are not fine, in their order.
std::string troubles(const MachineFacts& facts) {
  std::string text;
  for (const Finding& finding : examine(facts)) {
    const bool fine = finding.health == Health::fine;
    EXPECT_EQ(fine, finding.advice.empty()) << line_of(finding) << ": who finds fault says what to do";
    EXPECT_EQ(line_of(finding).find('\n'), std::string::npos);
    if (!fine) text += line_of(finding) + "\n";
  }
  return text;
}

void expect_only(const MachineFacts& facts, const std::string& start, const std::string& words) {
  const std::string found = troubles(facts);
  EXPECT_EQ(std::count(found.begin(), found.end(), '\n'), 1) << found;
  EXPECT_TRUE(found.starts_with(start)) << found;
  EXPECT_NE(found.find(words), std::string::npos) << found;
}

TEST(Doctor, FindsNothingInSoundMachines) {
  EXPECT_EQ(troubles(sound()), "");
  EXPECT_EQ(troubles(with_gpu()), "");
  EXPECT_EQ(line_of(examine(sound())[1]), "ok    cpu           AVX-512, 8 threads");
}

TEST(Doctor, KnowsASlowCpu) {
  MachineFacts facts = sound();
  facts.instruction_set = "SSE4";
  expect_only(facts, "note  cpu", "AVX2");
}

TEST(Doctor, MeasuresTheModelAgainstMemory) {
  MachineFacts facts = sound();
  facts.model.needs = size_t{17} << 30;
  expect_only(facts, "bad   memory", "16384 MiB free, the model needs 17408 MiB");
  facts = with_gpu();
  facts.model.needs = size_t{17} << 30;  // it lies on the GPU
  EXPECT_EQ(troubles(facts), "");
  facts.model.needs = size_t{71} << 30;
  expect_only(facts, "note  gpu", "the model needs");
}

TEST(Doctor, TellsWhyThereIsNoGpu) {
  MachineFacts facts = sound();
  facts.driver = "580.1";
  expect_only(facts, "note  gpu", "-cuda");
  facts = with_gpu();
  facts.driver.clear();
  facts.gpus.clear();
  expect_only(facts, "note  gpu", "no NVIDIA driver");
  facts = with_gpu();
  facts.gpus.clear();
  expect_only(facts, "note  gpu", "CUDA_VISIBLE_DEVICES");
  facts = with_gpu();
  facts.gpus[0].refusal = "has compute capability 7.5; wanted 8.0 or later";
  expect_only(facts, "bad   gpu", "7.5");
  facts = with_gpu();
  facts.gemm_library = false;
  expect_only(facts, "note  cublaslt", "libcublas");
}

TEST(Doctor, SpeaksOfAmdsDriverAndLibrariesInABuildForItsCards) {
  MachineFacts facts = with_gpu();
  facts.amd = true;
  EXPECT_EQ(troubles(facts), "");
  facts.gemm_library = false;
  expect_only(facts, "note  hipblaslt", "rocblas");
  facts.gpus.clear();
  expect_only(facts, "note  gpu", "HIP_VISIBLE_DEVICES");
  facts.driver.clear();
  expect_only(facts, "note  gpu", "no AMD driver");
}

TEST(Doctor, TellsOfTheLibraryForSumsWhereThereAreSeveralGpus) {
  const auto line_of_sums = [](const MachineFacts& facts) {
    std::string text;
    for (const Finding& finding : examine(facts)) {
      if (finding.name == "nccl" || finding.name == "rccl") text += line_of(finding);
    }
    return text;
  };
  MachineFacts facts = with_gpu();
  EXPECT_EQ(line_of_sums(facts), "") << "one GPU adds nothing up";
  facts.gpus.push_back(facts.gpus.front());
  EXPECT_NE(line_of_sums(facts).find("not found; needed by nothing"), std::string::npos);
  EXPECT_EQ(troubles(facts), "") << "nothing is missing without it";
  facts.sum_library = facts.amd = true;
  EXPECT_NE(line_of_sums(facts).find("rccl"), std::string::npos);
  EXPECT_NE(line_of_sums(facts).find(" found"), std::string::npos);
}

TEST(Doctor, KnowsPortsFoldersAndLimits) {
  MachineFacts facts = sound();
  facts.port_problem = "Address already in use";
  expect_only(facts, "bad   port", "--port");
  facts = sound();
  facts.folders[0].writable = false;
  expect_only(facts, "bad   models", "XDG_DATA_HOME");
  facts = sound();
  facts.folders[1].writable = false;
  expect_only(facts, "bad   sessions", "--state-db-path");
  facts = sound();
  facts.folders[0].free = uint64_t{1} << 30;
  expect_only(facts, "note  models", "make room");
  facts = sound();
  facts.open_files = 1024;
  expect_only(facts, "note  files", "ulimit -n");
}

TEST(Doctor, KnowsModelsAndVocabularies) {
  MachineFacts facts = sound();
  facts.model.problem = "model 'x' not found";
  expect_only(facts, "bad   model", "fulmar pull");
  facts = sound();
  facts.world_vocabulary.clear();
  expect_only(facts, "note  vocabulary", "fulmar tokenizer import");
  facts = sound();
  facts.certificates.clear();
  expect_only(facts, "note  certificates", "ca-certificates");
}

}  // namespace
}  // namespace fulmar
