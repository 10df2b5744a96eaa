#include "models/model.h"

namespace sgtrain::models {

Model::Registry& Model::registry() {
  static Registry registry("architecture");
  return registry;
}

}  // namespace sgtrain::models
