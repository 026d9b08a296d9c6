#include <iostream>
#include <stdexcept>

#include "clients/cpp/cli/cli.h"
#include "gadgets/numerics/core/resources.h"

int main(int argc, char** argv) {
  echotrain::numerics::ResourceOptions resources;
  try {
    resources = echotrain::numerics::resource_options_from_environment();
  } catch (const std::invalid_argument& error) {
    std::cerr << "echotrain: " << error.what() << '\n';
    return 2;
  }
  return echotrain::client::run(argc, argv, ECHOTRAIN_VERSION, resources, std::cout, std::cerr);
}
