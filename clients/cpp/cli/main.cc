#include <iostream>

#include "clients/cpp/cli/cli.h"

int main(int argc, char** argv) { return echotrain::client::run(argc, argv, ECHOTRAIN_VERSION, std::cout, std::cerr); }
