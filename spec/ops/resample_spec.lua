-- Tests padding, interpolation and sampling. The expected values are PyTorch 1.13's.
local torch = require "tlua"
local F = torch.nn.functional

local function row(x) return x:reshape(-1) end

-- Returns a tensor of the given shape with the elements 1, 4, 9, ...
local function squares(first, ...)
   local n = 1
   for _, size in ipairs {...} do n = n * size end
   return torch.arange(first, first + n, {dtype = "float32"}):square():reshape(...)
end

local function check(expected, actual) assert.close(torch.tensor(expected, {dtype = "float32"}), row(actual), 2e-4) end

describe("pad", function()
   local x = torch.arange(1, 7, {dtype = "float32"}):reshape(1, 2, 3)
   local y = torch.arange(1, 10, {dtype = "float32"}):reshape(1, 1, 3, 3)

   it("adds a constant around the last dimensions, the last one first", function()
      check({0, 1, 2, 3, 0, 0, 0, 4, 5, 6, 0, 0}, F.pad(x, {1, 2}))
      check({7, 7, 7, 7, 1, 2, 7, 4, 5}, F.pad(x, {1, -1, 1, 0}, "constant", 7))
   end)

   it("reflects, replicates the edge, and wraps around", function()
      check({3, 2, 1, 2, 3, 2, 6, 5, 4, 5, 6, 5}, F.pad(x, {2, 1}, "reflect"))
      check({1, 1, 1, 2, 3, 3, 4, 4, 4, 5, 6, 6}, F.pad(x, {2, 1}, "replicate"))
      check({2, 3, 1, 2, 3, 1, 5, 6, 4, 5, 6, 4}, F.pad(x, {2, 1}, "circular"))
      check({2, 1, 2, 3, 2, 1, 5, 4, 5, 6, 5, 4, 8, 7, 8, 9, 8, 7, 5, 4, 5, 6, 5, 4},
         F.pad(y, {1, 2, 0, 1}, "reflect"))
      check({7, 6, 7, 8, 10, 9, 10, 11, 1, 0, 1, 2, 4, 3, 4, 5, 7, 6, 7, 8, 10, 9, 10, 11},
         F.pad(torch.arange(12.0):reshape(1, 2, 2, 3), {1, 0, 0, 0, 1, 0}, "reflect"))
   end)

   it("wraps around the remaining part if it also crops", function()
      check({2, 1, 2, 5, 4, 5, 8, 7, 8, 2, 1, 2, 5, 4, 5}, F.pad(y, {1, -1, 0, 2}, "circular"))
   end)

   it("keeps the dtype of integers", function()
      local n = torch.tensor {{1, 2, 3}}
      assert.equal(n.dtype, F.pad(n, {1, 0}).dtype)
      assert.close(torch.tensor {{2, 1, 2, 3}}, F.pad(n, {1, 0}, "reflect"), 0)
   end)

   it("names the argument that does not fit", function()
      assert.raises("pad", "at most 2", function() F.pad(x, {3, 0}, "reflect") end)
      assert.raises("pad", "even count", function() F.pad(x, {1}) end)
      assert.raises("pad", "mirror", function() F.pad(x, {1, 1}, "mirror") end)
      assert.raises("pad", "to cut off", function() F.pad(x, {-4, 5}, "replicate") end)
      assert.raises("pad", "value", function() F.pad(x, {1, 1}, "reflect", 2) end)
   end)
end)

describe("pixel_shuffle, pixel_unshuffle and channel_shuffle", function()
   it("trade resolution for channels", function()
      local x = torch.arange(0, 8, {dtype = "float32"})
      check({0, 2, 1, 3, 4, 6, 5, 7}, F.pixel_shuffle(x:reshape(1, 4, 1, 2), 2))
      check({0, 2, 1, 3, 4, 6, 5, 7}, F.pixel_unshuffle(x:reshape(1, 1, 2, 4), 2))
      local y = torch.randn(2, 3, 8, 4, 6)
      assert.close(y, torch.pixel_unshuffle(torch.pixel_shuffle(y, 2), 2), 0)
   end)

   it("deal channels of groups out in turn", function()
      local x = torch.arange(0, 6, {dtype = "float32"}):reshape(1, 6, 1, 1)
      check({0, 3, 1, 4, 2, 5}, F.channel_shuffle(x, 2))
   end)

   it("name the size that cannot be divided", function()
      assert.raises("pixel_shuffle", "multiple of 4", function() F.pixel_shuffle(torch.ones(3, 2, 2), 2) end)
      assert.raises("pixel_unshuffle", "multiples of 2", function() F.pixel_unshuffle(torch.ones(1, 3, 2), 2) end)
      assert.raises("channel_shuffle", "divisor", function() F.channel_shuffle(torch.ones(1, 3, 2), 2) end)
   end)
end)

describe("interpolate", function()
   local line = squares(1, 1, 1, 5)
   local image = squares(1, 1, 1, 2, 3)

   it("takes elements or means in modes nearest, nearest-exact and area", function()
      for mode, expected in pairs {
         nearest = {{1, 1, 4, 9, 9, 16, 25}, {1, 4, 16}, {1, 1, 4, 4, 9, 9, 16, 25}},
         ["nearest-exact"] = {{1, 4, 4, 9, 16, 16, 25}, {1, 9, 25}, {1, 1, 4, 9, 9, 16, 16, 25}},
         area = {{1, 2.5, 6.5, 9, 12.5, 20.5, 25}, {2.5, 9.666667, 20.5}, {1, 2.5, 4, 6.5, 12.5, 16, 20.5, 25}},
      } do
         check(expected[1], F.interpolate(line, 7, nil, mode))
         check(expected[2], F.interpolate(line, {size = 3, mode = mode}))
         check(expected[3], F.interpolate(line, {scale_factor = 1.7, mode = mode}))
      end
   end)

   it("is linear by sizes, by factors and between the corners", function()
      check({1, 2.714286, 5.428572, 9, 14, 19.857143, 25}, F.interpolate(line, 7, nil, "linear"))
      check({1, 2.147059, 3.911765, 6.794118, 10.029412, 14.147059, 18.911766, 24.205883},
         F.interpolate(line, nil, 1.7, "linear"))
      check({1, 2.3125, 4.3125, 7.4375, 11.1875, 15.5625, 21.0625, 25},
         F.interpolate(line, nil, 1.7, "linear", false, true))
      check({1, 2.714286, 4.714286, 7.571429, 11, 15, 19.857143, 25}, F.interpolate(line, 8, nil, "linear", true))
   end)

   it("is bilinear, with a factor for each dimension", function()
      check({1, 2.875, 5.875, 9, 8.5, 12.25, 17.5, 22.5, 16, 21.625, 29.125, 36},
         F.interpolate(image, {3, 4}, nil, "bilinear"))
      check({1, 2.5, 4.833333, 8.166667, 4.75, 7, 10.333333, 14.666667, 12.25, 16, 21.333332, 27.666666,
             16, 20.5, 26.833332, 34.166664}, F.interpolate(image, nil, {2, 1.5}, "bilinear"))
   end)

   it("rounds uint8 after each dimension, as PyTorch 2.15 does", function()
      local x = torch.tensor({{{{0, 10, 255}, {7, 8, 9}}}}, {dtype = "uint8"})
      local linear = F.interpolate(x, {3, 5}, nil, "bilinear")
      assert.equal("uint8", linear.dtype)
      assert.same({{{{0, 4, 10, 157, 255}, {4, 6, 9, 83, 132}, {7, 7, 8, 9, 9}}}}, linear:tolist())
      assert.same({{{{0, 0, 10, 174, 255}, {4, 4, 9, 85, 132}, {8, 8, 8, 0, 0}}}},
         F.interpolate(x, {3, 5}, nil, "bicubic"):tolist())
   end)

   it("is bicubic", function()
      check({-0.480032, 0.791616, 4.063528, 6.977754, 8.069336, 11.458984, 18.041992, 23.074219, 16.618702,
             22.126352, 32.020454, 39.170685}, F.interpolate(image, {3, 4}, nil, "bicubic"))
      check({1, 2.5, 5.907405, 9, 8.5, 11.722223, 17.685179, 22.5, 16, 20.944447, 29.462954, 36},
         F.interpolate(image, {3, 4}, nil, "bicubic", true))
   end)

   it("is trilinear", function()
      check({0, 0.5, 1, 4, 6.5, 9, 8, 10.5, 13, 20, 24.5, 29, 16, 20.5, 25, 36, 42.5, 49},
         F.interpolate(squares(0, 1, 1, 2, 2, 2), {3, 2, 3}, nil, "trilinear"))
   end)

   describe("with antialias", function()
      -- The input is ((arange(30) * 7) % 11) with the shape (1, 1, 5, 6). The expected values are PyTorch 2.15's.
      local x = ((torch.arange(30) * 7) % 11):to("float32"):reshape(1, 1, 5, 6)
      for _, case in ipairs {
         {"bilinear", {2, 3}, false, {5.07143, 5.625, 4.14286, 5.14286, 5.3125, 4.85714}},
         {"bilinear", {3, 2}, true, {4.9932, 4.02381, 5.23809, 4.9375, 5.4881, 5.41667}},
         {"bicubic", {2, 4}, false, {5.30233, 4.60685, 6.63131, 3.08164, 4.75331, 6.46942, 3.84747, 5.59082}},
         {"bicubic", {7, 2}, true,
            {5.09372, 4.66292, 4.82505, 2.94812, 4.8892, 2.22545, 6.04263, 5.96986, 5.06929, 5.64497,
             4.21849, 4.51753, 5.68055, 5.6965}},
         {"lanczos", {2, 4}, false, {5.17846, 4.67516, 6.69021, 2.90604, 4.76558, 6.56483, 3.75034, 5.58046}},
      } do
         local mode, size, corners, expected = table.unpack(case)
         it(("gives PyTorch's values: %s to %d x %d, align_corners = %s"):format(mode, size[1],
            size[2], corners), function()
            check(expected, F.interpolate(x, size, {mode = mode, align_corners = corners, antialias = true}))
         end)
      end

      it("measures by scale_factor, or by the sizes with recompute_scale_factor", function()
         local options = {scale_factor = {0.5, 0.7}, mode = "bilinear", antialias = true}
         check({5.1044, 4.33333, 6.79263, 3.35714, 5.09135, 5.7963, 4.83064, 4.5}, F.interpolate(x, options))
         options.recompute_scale_factor = true
         check({5.3125, 4.77778, 6.22222, 3.375, 4.8125, 6.11111, 4.22222, 5.375}, F.interpolate(x, options))
      end)

      it("has PyTorch's gradient", function()
         local leaf = x:double():requires_grad_()
         local y = F.interpolate(leaf, {2, 3}, {mode = "bicubic", antialias = true})
         y:mul(torch.arange(6.0):reshape(1, 1, 2, 3)):sum():backward()
         check({-0.0512118, -0.0257691, 0.0623989, 0.162824, 0.275508, 0.242136, 0.0223389, 0.0872704,
                0.199313, 0.340748, 0.511575, 0.435478, 0.292454, 0.445038, 0.531194, 0.683457,
                0.901825, 0.737221, 0.520976, 0.739511, 0.787528, 0.928963, 1.16382, 0.934115,
                0.436992, 0.612824, 0.638305, 0.738731, 0.9141, 0.73034}, leaf.grad:float())
         assert.equal("<UpsampleBicubic2DAaBackward0>", tostring(y.grad_fn))
      end)

      it("rounds bytes after each dimension, and half types once", function()
         local bytes = ((torch.arange(30) * 53) % 256):to("uint8"):reshape(1, 1, 5, 6)
         local function small(t, mode) return F.interpolate(t, {2, 3}, {mode = mode, antialias = true}) end
         check({98, 143, 95, 162, 115, 124}, small(bytes, "bilinear"):float())
         check({90, 151, 89, 172, 109, 125}, small(bytes, "bicubic"):float())
         for _, dtype in ipairs {"float16", "bfloat16"} do
            assert.close(small(x, "bicubic"):to(dtype), small(x:to(dtype), "bicubic"), 0)
         end
      end)

      it("keeps an image of the same size", function()
         for _, mode in ipairs {"bilinear", "bicubic", "lanczos"} do
            assert.close(x, F.interpolate(x, {5, 6}, {mode = mode, antialias = true}), 0)
            assert.close(x, F.interpolate(x, {scale_factor = 1, mode = mode, antialias = true}), 1e-6)
         end
      end)

      it("names modes that have no filter", function()
         assert.raises("interpolate", "antialias: expected mode 'bilinear'",
            function() F.interpolate(x, {2, 3}, {antialias = true}) end)
         assert.raises("interpolate", "antialias: expected mode 'bilinear'",
            function() F.interpolate(line, 3, {mode = "linear", antialias = true}) end)
         assert.raises("interpolate", "'lanczos' needs antialias",
            function() F.interpolate(x, {2, 3}, {mode = "lanczos"}) end)
         assert.raises("interpolate", "align_corners has no meaning",
            function() F.interpolate(x, {2, 3}, {mode = "lanczos", align_corners = true, antialias = true}) end)
      end)
   end)

   it("names options that do not fit", function()
      assert.raises("interpolate", "one of size and scale_factor", function() F.interpolate(line) end)
      assert.raises("interpolate", "one of size and scale_factor", function() F.interpolate(line, 3, 2) end)
      assert.raises("interpolate", "'bilinear' is for inputs of 4",
         function() F.interpolate(line, 3, nil, "bilinear") end)
      assert.raises("interpolate", "align_corners", function() F.interpolate(line, 3, nil, "nearest", true) end)
      assert.raises("interpolate", "trilinear", function() F.interpolate(line, 3, nil, "cubic") end)
      assert.raises("interpolate", "1 or 2 numbers", function() F.interpolate(image, {1, 2, 3}) end)
      assert.raises("interpolate", "positive", function() F.interpolate(image, nil, -1) end)
   end)
end)

describe("affine_grid", function()
   local theta = torch.tensor {{{1, 0.5, -0.25}, {0.25, 2, 0.5}}}

   it("maps the places of the output", function()
      check({-1.166667, -0.666667, -0.5, -0.5, 0.166667, -0.333333, -0.666667, 1.333333, 0, 1.5, 0.666667,
             1.666667}, F.affine_grid(theta, {1, 1, 2, 3}))
      check({-1.75, -1.75, -0.75, -1.5, 0.25, -1.25, -0.75, 2.25, 0.25, 2.5, 1.25, 2.75},
         F.affine_grid(theta, {1, 1, 2, 3}, true))
      local volume = torch.tensor {{{1, 0, 0, 0.5}, {0, 1, 0, 0}, {0, 0.5, 1, 0}}}
      check({0, 0, -0.5, 1, 0, -0.5, 0, 0, 0.5, 1, 0, 0.5}, F.affine_grid(volume, {1, 1, 2, 1, 2}))
   end)

   it("names the shape that theta must have", function()
      assert.raises("affine_grid", "(2, 2, 3)", function() F.affine_grid(theta, {2, 1, 2, 3}) end)
   end)
end)

describe("grid_sample", function()
   local image = squares(0, 1, 1, 3, 4)
   local grid = torch.tensor {{{{-0.9, -0.3}, {0.2, 0.7}, {1.3, -0.4}, {-1.9, 2.6}}}}

   for _, case in ipairs {
      {"bilinear", "zeros", false, {6.16, 93.195, 0, 0}},
      {"bilinear", "zeros", true, {12.19, 77.48, 18.15, 0}},
      {"bilinear", "border", false, {8.8, 98.1, 25, 64}},
      {"bilinear", "border", true, {12.19, 77.48, 33, 64}},
      {"bilinear", "reflection", false, {8.8, 98.1, 24.18, 4.54001}},
      {"bilinear", "reflection", true, {12.19, 77.48, 28.59, 12.77}},
      {"nearest", "zeros", false, {16, 100, 0, 0}},
      {"nearest", "zeros", true, {16, 100, 49, 0}},
      {"nearest", "border", false, {16, 100, 9, 64}},
      {"nearest", "border", true, {16, 100, 49, 64}},
      {"nearest", "reflection", false, {16, 100, 9, 1}},
      {"nearest", "reflection", true, {16, 100, 49, 1}},
      {"bicubic", "zeros", false, {2.36295, 95.5858, -1.23371, 0}},
      {"bicubic", "zeros", true, {7.394, 89.6428, 15.6155, 0.511055}},
      {"bicubic", "border", false, {3.48774, 99.4102, 19.336, 64}},
      {"bicubic", "border", true, {6.88247, 79.1638, 26.6261, 64}},
      {"bicubic", "reflection", false, {3.26885, 99.5223, 18.756, 3.50686}},
      {"bicubic", "reflection", true, {5.63593, 86.0011, 20.4737, 5.1383}},
   } do
      local mode, padding, corners, expected = table.unpack(case)
      it(("samples an image: %s, %s, align_corners = %s"):format(mode, padding, corners), function()
         check(expected, F.grid_sample(image, grid, mode, padding, corners))
      end)
   end

   it("samples a volume", function()
      local volume = squares(0, 1, 1, 2, 2, 3)
      local places = torch.tensor {{{{{-0.4, 0.3, 0.2}, {0.9, -0.8, 1.2}}}}}
      check({58.24, 8.736}, F.grid_sample(volume, places))
      check({58.24, 64}, F.grid_sample(volume, places, {padding_mode = "border"}))
      check({58.24, 64}, F.grid_sample(volume, places, {padding_mode = "reflection"}))
      check({81, 0}, F.grid_sample(volume, places, "nearest"))
      check({81, 64}, F.grid_sample(volume, places, "nearest", "border"))
   end)

   it("gives the image back for the identity", function()
      local theta = torch.tensor {{{1.0, 0, 0}, {0, 1, 0}}}
      for _, corners in ipairs {false, true} do
         local whole = F.affine_grid(theta, {1, 1, 3, 4}, corners)
         assert.close(image, F.grid_sample(image, whole, {align_corners = corners}), 1e-4)
      end
   end)

   it("has no slope at the border", function()
      local ends = torch.tensor({{{{-1.0, -1}, {1, 1}}}}):requires_grad_()
      F.grid_sample(image, ends, "bilinear", "border", true):sum():backward()
      assert.close(torch.zeros(1, 1, 2, 2), ends.grad, 0)
   end)

   it("takes NaN as -1 and survives the infinite", function()
      local nan, inf = 0 / 0, math.huge
      local places = torch.tensor({{{{nan, nan}, {inf, -inf}}}}):requires_grad_()
      local samples = F.grid_sample(image + 1, places, "bilinear", "zeros", true)
      check({1, 0}, samples:detach())
      samples:sum():backward()
      assert.is_false(places.grad:isnan():any():item())
   end)

   it("is tricubic in a volume, as in PyTorch 2.15", function()
      local volume = (torch.arange(27, {dtype = "float64"}) * 7 % 11):reshape(1, 1, 3, 3, 3)
      local places = torch.tensor({0.3, -0.2, 0.1, 0.9, -0.8, -0.4}, {dtype = "float64"}):reshape(1, 1, 1, 2, 3)
      for _, case in ipairs {
         {"zeros", false, {5.205956, 0.086304}}, {"zeros", true, {4.397807, 2.285718}},
         {"border", false, {4.43121, 0.284903}}, {"border", true, {3.92858, 1.852304}},
         {"reflection", false, {4.43121, -0.148438}}, {"reflection", true, {4.122402, 1.133588}},
      } do
         assert.close(case[3], F.grid_sample(volume, places, "bicubic", case[1], case[2]):view(-1), 1e-6)
      end
   end)

   -- If gradients are needed, the samples are computed by a formula of operators, otherwise by a kernel.
   it("gives the same samples with and without gradients", function()
      torch.manual_seed(5)
      local images = torch.randn(2, 3, 9, 13):transpose(3, 4)
      local places = torch.randn(2, 11, 7, 2)
      places[{1, 1, 1, 1}], places[{1, 1, 2, 2}], places[{1, 1, 3, 1}] = 0 / 0, 1 / 0, -1 / 0
      places[{2, 1}] = 1
      for _, mode in ipairs {"bilinear", "nearest"} do
         for _, padding in ipairs {"zeros", "border"} do
            for _, corners in ipairs {false, true} do
               local function sample(x) return F.grid_sample(x, places, mode, padding, corners) end
               local recorded = sample(images:clone():requires_grad_())
               assert.close(recorded:detach(), sample(images), 1e-5, mode .. padding)
               assert.equal(0, sample(images):isnan():sum():item())
            end
         end
      end
      local infinite = torch.full({1, 1, 2, 2}, 1 / 0)
      local beyond = torch.full({1, 1, 1, 2}, 5.0)
      assert.equal(0, F.grid_sample(infinite, beyond):item())
      local one, far = torch.full({1, 1, 1, 1}, 3.0), torch.full({1, 1, 1, 2}, 1 / 0)
      assert.equal(3, F.grid_sample(one, far, "bilinear", "border", true):item())
      assert.equal(0, F.grid_sample(torch.ones(1, 1, 4, 40), torch.full({1, 1, 1, 2}, 1e9)):item())
      assert.same({1, 2, 0, 7}, {table.unpack(F.grid_sample(torch.zeros(1, 2, 3, 3), torch.zeros(1, 0, 7, 2)).shape)})
   end)

   it("names the argument that does not fit", function()
      assert.raises("grid_sample", "got [1, 1, 3, 4] and [1, 4, 2]",
         function() F.grid_sample(image, torch.zeros(1, 4, 2)) end)
      assert.raises("grid_sample", "'linear'", function() F.grid_sample(image, grid, "linear") end)
   end)
end)
