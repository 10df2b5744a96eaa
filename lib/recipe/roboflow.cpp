#include "recipe/roboflow.h"

#include <algorithm>
#include <array>

namespace sgtrain::recipe {
namespace {

struct Row {
  std::string_view name;
  int classes;
};

// Classes that really occur in the annotations of each of the 100 data sets of RF100 (Ciaglia et
// al. 2022); some data sets declare more. Sorted by name.
constexpr std::array<Row, 100> kRows = {{{"4-fold-defect", 1},
                                         {"abdomen-mri", 1},
                                         {"acl-x-ray", 1},
                                         {"activity-diagrams-qdobr", 19},
                                         {"aerial-cows", 1},
                                         {"aerial-pool", 5},
                                         {"aerial-spheres", 6},
                                         {"animals-ij5d2", 10},
                                         {"apex-videogame", 2},
                                         {"apples-fvpl5", 2},
                                         {"aquarium-qlnqy", 7},
                                         {"asbestos", 4},
                                         {"avatar-recognition-nuexe", 1},
                                         {"axial-mri", 2},
                                         {"bacteria-ptywi", 1},
                                         {"bccd-ouzjz", 3},
                                         {"bees-jt5in", 1},
                                         {"bone-fracture-7fylg", 4},
                                         {"brain-tumor-m2pbp", 3},
                                         {"cable-damage", 2},
                                         {"cables-nl42k", 11},
                                         {"cavity-rs0uf", 2},
                                         {"cell-towers", 2},
                                         {"cells-uyemf", 1},
                                         {"chess-pieces-mjzgj", 13},
                                         {"circuit-elements", 31},
                                         {"circuit-voltages", 6},
                                         {"cloud-types", 4},
                                         {"coins-1apki", 4},
                                         {"construction-safety-gsnvb", 5},
                                         {"coral-lwptl", 14},
                                         {"corrosion-bi3q3", 3},
                                         {"cotton-20xz5", 4},
                                         {"cotton-plant-disease", 1},
                                         {"csgo-videogame", 2},
                                         {"currency-v4f8j", 10},
                                         {"digits-t2eg6", 10},
                                         {"document-parts", 2},
                                         {"excavators-czvg9", 3},
                                         {"farcry6-videogame", 11},
                                         {"fish-market-ggjso", 19},
                                         {"flir-camera-objects", 4},
                                         {"furniture-ngpea", 3},
                                         {"gauge-u2lwv", 2},
                                         {"grass-weeds", 1},
                                         {"gynecology-mri", 3},
                                         {"halo-infinite-angel-videogame", 4},
                                         {"hand-gestures-jps7z", 14},
                                         {"insects-mytwu", 10},
                                         {"leaf-disease-nsdsr", 3},
                                         {"lettuce-pallets", 5},
                                         {"liver-disease", 4},
                                         {"marbles", 2},
                                         {"mask-wearing-608pr", 2},
                                         {"mitosis-gjs3g", 1},
                                         {"number-ops", 15},
                                         {"paper-parts", 19},
                                         {"paragraphs-co84b", 7},
                                         {"parasites-1s07h", 8},
                                         {"peanuts-sd4kf", 2},
                                         {"peixos-fish", 2},
                                         {"people-in-paintings", 1},
                                         {"pests-2xlvx", 28},
                                         {"phages", 2},
                                         {"pills-sxdht", 8},
                                         {"poker-cards-cxcvz", 53},
                                         {"printed-circuit-board", 23},
                                         {"radio-signal", 2},
                                         {"road-signs-6ih4y", 21},
                                         {"road-traffic", 7},
                                         {"robomasters-285km", 9},
                                         {"secondary-chains", 1},
                                         {"sedimentary-features-9eosf", 5},
                                         {"shark-teeth-5atku", 4},
                                         {"sign-language-sokdr", 26},
                                         {"signatures-xc8up", 1},
                                         {"smoke-uvylj", 1},
                                         {"soccer-players-5fuqs", 3},
                                         {"soda-bottles", 3},
                                         {"solar-panels-taxvb", 5},
                                         {"stomata-cells", 2},
                                         {"street-work", 8},
                                         {"tabular-data-wf9uh", 12},
                                         {"team-fight-tactics", 59},
                                         {"thermal-cheetah-my4dp", 2},
                                         {"thermal-dogs-and-people-x6ejw", 2},
                                         {"trail-camera", 2},
                                         {"truck-movement", 5},
                                         {"tweeter-posts", 2},
                                         {"tweeter-profile", 1},
                                         {"underwater-objects-5v7p8", 5},
                                         {"underwater-pipes-4ng4t", 1},
                                         {"uno-deck", 15},
                                         {"valentines-chocolate", 22},
                                         {"vehicles-q0x2v", 12},
                                         {"wall-damage", 3},
                                         {"washroom-rf1fa", 10},
                                         {"weed-crop-aerial", 2},
                                         {"wine-labels", 12},
                                         {"x-ray-rheumatology", 12}}};

}  // namespace

std::optional<int> roboflow_classes(std::string_view dataset) {
  const auto found =
      std::lower_bound(kRows.begin(), kRows.end(), dataset,
                       [](const Row& row, std::string_view name) { return row.name < name; });
  if (found == kRows.end() || found->name != dataset) return std::nullopt;
  return found->classes;
}

std::vector<std::string> roboflow_datasets() {
  std::vector<std::string> names;
  for (const Row& row : kRows) names.emplace_back(row.name);
  return names;
}

}  // namespace sgtrain::recipe
