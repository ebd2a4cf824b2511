// Times every island of one layer alone, on random weights and inputs. Several layers run one
// after the other, so that no weights stay in a cache. This shows where the time of a step
// goes; bench_model times whole steps.
#pragma once

#include <vector>

#include "app/bench/bench_model.h"
#include "files/model_config.h"

namespace fulmar {

// Measures islands with the sizes of `config`, the fraction `zeros` of hidden channels being zero after
// relu²; one line per island and shape. Fails without enough memory.
Result<std::vector<IslandLine>> bench_islands(Ops& ops, const ModelConfig& config, double zeros,
                                              const std::vector<PrefillShape>& shapes);

}  // namespace fulmar
