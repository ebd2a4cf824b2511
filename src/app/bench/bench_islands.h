// Times every island of one layer alone, on weights and inputs made of random numbers. Several layers run
// one after the other, so that no weights stay in a cache. For finding out where the time of a step goes;
// what a step takes is bench_model's business.
#pragma once

#include <vector>

#include "app/bench/bench_model.h"
#include "files/model_config.h"

namespace fulmar {

// Sizes as in `config`, `zeros` of the units behind relu² zero; one line per island and shape. Fails where
// memory does not suffice.
Result<std::vector<IslandLine>> bench_islands(Ops& ops, const ModelConfig& config, double zeros,
                                              const std::vector<PrefillShape>& shapes);

}  // namespace fulmar
