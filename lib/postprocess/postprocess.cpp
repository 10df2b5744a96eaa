#include "postprocess/postprocess.h"

namespace sgtrain::postprocess {

DetectionPostprocess::Registry& DetectionPostprocess::registry() {
  static Registry registry("post-prediction callback");
  return registry;
}

}  // namespace sgtrain::postprocess
