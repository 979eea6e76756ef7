#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdlib>

int main(int argc, char** argv) {
  setenv("MRMF_EMULATED_GPUS", "4", 1);  // ranks in threads need a device each
  return doctest::Context(argc, argv).run();
}
