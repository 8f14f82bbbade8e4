// run.cpp - does in C++ what run.c does in C: runs the program of export.lua on a file of digits.
//
//   c++ -Isrc -o run examples/deploy/run.cpp build/libtlua.a -lm -ldl -lpthread
//   ./run digits.tlp examples/data/digits.csv
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <tlua.h>
#include <vector>

using Program = std::unique_ptr<tl_Program, decltype(&tl_program_free)>;
using Tensor = std::unique_ptr<tl_Tensor, decltype(&tl_tensor_release)>;

static Tensor wrap(std::vector<float> &data, const std::vector<int64_t> &sizes) {
  return {tl_tensor_wrap(data.data(), TL_F32, static_cast<int>(sizes.size()), sizes.data(), nullptr,
                         nullptr, nullptr),
          tl_tensor_release};
}

int main(int argc, char **argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: run digits.tlp digits.csv\n"), 2;
  std::vector<float> images, numbers;
  std::vector<int> digits;
  std::ifstream file(argv[2]);
  // Each line has 64 pixels from 0 to 16 and the digit.
  for (float number; file >> number; file.ignore()) {
    numbers.push_back(number);
    if (numbers.size() % 65 == 0)
      digits.push_back(static_cast<int>(number));
    else
      images.push_back(number / 16);
  }
  int64_t n = static_cast<int64_t>(digits.size());
  std::vector<float> scores(digits.size() * 10);
  Program program(tl_program_load(argv[1]), tl_program_free);
  Tensor in = wrap(images, {n, 1, 8, 8}), out = wrap(scores, {n, 10});
  tl_Tensor *inputs[] = {in.get()}, *outputs[] = {out.get()};
  if (!program || !in || !out || !tl_program_run(program.get(), inputs, 1, outputs, 1))
    return std::fprintf(stderr, "run: %s\n", tl_error()), 1;
  int right = 0;
  for (std::size_t i = 0; i < digits.size(); i++) {
    auto row = scores.begin() + static_cast<std::ptrdiff_t>(i * 10);
    right += std::max_element(row, row + 10) - row == digits[i];
  }
  std::printf("%d of %d digits read right\n", right, static_cast<int>(n));
}
