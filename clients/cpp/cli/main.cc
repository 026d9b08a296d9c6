#include <iostream>

#include "clients/cpp/cli/cli.h"
#include "config/node.h"
#include "gadgets/shared/program/resources_from_options.h"

int main(int argc, char** argv) {
  echotrain::numerics::ResourceOptions resources;
  try {
    resources = echotrain::resource_options_from_environment();
  } catch (const echotrain::config::ConfigError& error) {
    std::cerr << "echotrain: " << error.what() << '\n';
    return 2;
  }
  return echotrain::client::run(argc, argv, ECHOTRAIN_VERSION, resources, std::cout, std::cerr);
}
