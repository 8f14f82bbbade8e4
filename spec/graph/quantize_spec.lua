-- Tests programs with 8-bit integers. The operators are compared with their definition in exact arithmetic. quantize_
-- is tested by the error of its programs, and by the number of digits that a convnet recognises.

local torch = require "tlua"
local device = require "spec.support.device"
local nn = torch.nn
local quantize_ = torch.ao.quantization.quantize_

-- Returns the weight's integers in panels of 16 channels, which is the layout that the operators expect, and the sums
-- of the integers.
local function panels(integers)
   local n, channels = integers:size(1), integers:size(2)
   local flat = integers:reshape(n, channels, -1)
   local rows, deep, places = (n + 15) // 16 * 16, (channels + 3) // 4 * 4, flat:size(3)
   local all = torch.zeros(rows, places, deep)
   all[{{1, n}, {}, {1, channels}}] = flat:transpose(2, 3)
   local packed = all:view(rows // 16, 16, places * deep // 4, 4):permute(1, 3, 2, 4):contiguous():to "int8"
   return packed, integers:reshape(n, -1):sum(2):to "int32"
end

-- Returns the weight's integers (n, 1, height, width) in groups of four adjacent elements of each column, and their
-- sums.
local function quads(integers)
   local n, _, height, width = table.unpack(integers.shape)
   local count = (height + 3) // 4
   local padded = torch.zeros(n, count * 4, width)
   padded[{{}, {1, height}, {}}] = integers[{{}, 1}]
   return padded:reshape(n, count, 4, width):permute(4, 2, 1, 3):contiguous():to "int8",
      integers:reshape(n, -1):sum(2):to "int32"
end

-- Quantizes x. Returns the bytes as float64, their scale and their zero point.
local function rounded(x, scale, zero)
   if scale == 0 then
      local low, high = math.min(x:min():item(), 0), math.max(x:max():item(), 0)
      scale = torch.tensor((high - low) / 255):item()
      zero = torch.tensor(-low / scale):round():item()
   end
   local inverse = torch.tensor(1 / scale):item()
   return ((x * inverse):round() + zero):clamp(0, 255):double(), scale, zero
end

local function integers(...)
   return torch.randint(-127, 128, {...}):float()
end

describe("quantized operators", function()
   before_each(function() torch.manual_seed(3) end)

   it("multiply rows as defined", function()
      if device.name == "cuda" then return pending "the operators are on the CPU alone" end
      for _, case in ipairs {{1, 1, 1}, {5, 30, 21}, {9, 64, 16}, {70, 7, 33}, {3, 257, 130}} do
         local m, k, n = table.unpack(case)
         local w, x, scales, bias = integers(n, k), torch.randn(m, k), torch.rand(n) + 0.1, torch.randn(n)
         local weight, sums = panels(w)
         for _, range in ipairs {{0.0, 0}, {0.02, 128}, {0.01, 0}} do
            local expected = {}
            for i = 1, m do
               local q, scale, zero = rounded(x[i], range[1], range[2])
               expected[i] = (w:double():mv(q - zero) * scale * scales:double() + bias:double())
            end
            expected = torch.stack(expected)
            local y = torch._quantized_linear(x, weight, scales, sums, bias, range[1], range[2])
            assert.close(expected:float(), y, 2e-5)
            local z = torch._quantized_linear(x, weight, scales, sums, bias, range[1], range[2], true)
            assert.is_true(torch.equal(y:relu(), z))
         end
      end
      assert.same({0, 3}, torch._quantized_linear(torch.ones(0, 2), panels(integers(3, 2)), torch.ones(3),
         torch.zeros({3}, {dtype = "int32"})).shape)
   end)

   it("convolve images as defined", function()
      if device.name == "cuda" then return pending "the operators are on the CPU alone" end
      local cases = {
         {2, 3, 21, 9, 11, {3, 5}, {2, 1}, {1, 2}, {1, 1}}, {1, 8, 16, 9, 11, {3, 3}, {1, 1}, {2, 2}, {2, 2}},
         {1, 1, 1, 1, 1, {1, 1}, {1, 1}, {0, 0}, {1, 1}}, {1, 5, 40, 17, 3, {1, 1}, {1, 1}, {0, 0}, {1, 1}},
         {3, 64, 32, 14, 14, {3, 3}, {1, 1}, {1, 1}, {1, 1}}, {1, 4, 17, 7, 40, {2, 1}, {3, 2}, {0, 1}, {1, 3}},
      }
      for _, case in ipairs(cases) do
         local b, c, n, h, wide, kernel, stride, padding, dilation = table.unpack(case)
         local w, x = integers(n, c, kernel[1], kernel[2]), torch.randn(b, c, h, wide)
         local weight, sums = panels(w)
         local scales, bias = torch.rand(n) + 0.1, torch.randn(n)
         for _, range in ipairs {{0.0, 0}, {0.02, 120}} do
            local expected = {}
            for i = 1, b do
               local q, scale, zero = rounded(x[i], range[1], range[2])
               local sum = nn.functional.conv2d((q - zero):unsqueeze(1), w:double(), nil, stride, padding, dilation)
               expected[i] = sum * (scales:double():view(-1, 1, 1) * scale) + bias:double():view(-1, 1, 1)
            end
            local y = torch._quantized_conv2d(x, weight, scales, sums, bias, kernel, stride, padding, dilation,
               range[1], range[2])
            assert.close(torch.cat(expected):float(), y, 2e-5)
            local z = torch._quantized_conv2d(x, weight, scales, sums, bias, kernel, stride, padding, dilation,
               range[1], range[2], true)
            assert.is_true(torch.equal(y:relu(), z))
         end
      end
   end)

   it("convolve each channel alone as defined", function()
      if device.name == "cuda" then return pending "the operators are on the CPU alone" end
      local cases = {
         {2, 3, 9, 11, {3, 5}, {2, 1}, {1, 2}, {1, 1}}, {1, 64, 9, 7, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
         {2, 130, 8, 9, {3, 3}, {2, 2}, {1, 1}, {1, 1}}, {1, 72, 9, 9, {5, 5}, {1, 1}, {2, 2}, {1, 1}},
         {1, 16, 12, 9, {1, 2}, {1, 3}, {0, 0}, {1, 4}}, {1, 66, 21, 20, {9, 8}, {1, 1}, {0, 3}, {2, 1}},
      }
      for _, case in ipairs(cases) do
         local b, n, h, wide, kernel, stride, padding, dilation = table.unpack(case)
         local w, x = integers(n, 1, kernel[1], kernel[2]), torch.randn(b, n, h, wide)
         local weight, sums = quads(w)
         local scales, bias = torch.rand(n) * 0.01, torch.randn(n)
         for _, range in ipairs {{0.0, 0}, {0.02, 120}} do
            local expected = {}
            for i = 1, b do
               local q, scale, zero = rounded(x[i], range[1], range[2])
               local sum = nn.functional.conv2d((q - zero):unsqueeze(1), w:double(), nil, stride, padding, dilation, n)
               expected[i] = sum * (scales:double():view(-1, 1, 1) * scale) + bias:double():view(-1, 1, 1)
            end
            expected = torch.cat(expected):float()
            local function convolve(given, relu, most, out_scale, out_zero, other)
               return torch._quantized_conv2d(given, weight, scales, sums, bias, kernel, stride, padding, dilation,
                  range[1], range[2], relu, most, out_scale, out_zero, other, true)
            end
            local y = convolve(x, false, 0.0, 0.0, 0)
            assert.close(expected, y, 2e-5)
            assert.is_true(torch.equal(y:clamp(0, 1), convolve(x, true, 1.0, 0.0, 0)))
            local other = torch.randn(y.shape)
            assert.close(expected + other, convolve(x, false, 0.0, 0.0, 0, other), 2e-5)
            for _, added in ipairs {false, other} do
               local bytes = convolve(x, true, 0.5, 0.004, 7, added or nil)
               local exact = ((added and y + added or y):clamp(0, 0.5) / 0.004 + 7):clamp(0, 255)
               assert.equal("uint8", bytes.dtype)
               assert.is_true((bytes:float() - exact):abs():max():item() <= 0.501)
            end
            -- if the range gives a scale and a zero point, the input may also be quantized beforehand
            if range[1] > 0 then
               local bytes = ((x / range[1]):round() + range[2]):clamp(0, 255):to "uint8"
               assert.close(y, convolve(bytes, false, 0.0, 0.0, 0), 1e-6)
            end
         end
      end
      local weight, sums = quads(torch.ones(64, 1, 3, 3))
      local image = torch.ones(2, 64, 4, 4)
      image[{2, 3, 2, 2}] = 0 / 0
      local function by(channels)
         return torch._quantized_conv2d(image, weight, torch.ones(channels), sums, torch.zeros(channels), {3, 3}, 1, 1,
            1, 0.0, 0, false, 0.0, 0.0, 0, nil, true)
      end
      assert.same({false, true}, by(64):flatten(2):isnan():all(2):tolist())
      assert.error_matches(function() by(32) end, "depthwise: expected scales of self's 64 channels, got 32")
      weight = weight:narrow(1, 1, 2)
      assert.error_matches(function() by(64) end, "weight: expected 768 elements of int8")
   end)

   it("give NaN for rows without a finite range, and clamp numbers outside a given range", function()
      if device.name == "cuda" then return pending "the operators are on the CPU alone" end
      local weight, sums = panels(torch.ones(3, 4))
      local function product(x, ...) return torch._quantized_linear(x, weight, torch.ones(3), sums, nil, ...) end
      local nan, inf = 0 / 0, math.huge
      local x = torch.tensor {{1, 2, nan, 3}, {1, inf, 0, 0}, {1, 2, 3, 255}, {0, 0, 0, 0}}
      assert.same({true, true, false, false}, product(x):isnan():all(2):tolist())
      assert.same({261, 0}, product(x)[{{3, 4}, 1}]:tolist())
      assert.same({true, false, false, false}, product(x, 1.0, 0):isnan():all(2):tolist())
      assert.same({256, 261}, product(x, 1.0, 0)[{{2, 3}, 1}]:tolist())
      assert.same({4 * 155}, product(torch.full({1, 4}, 1e30), 1.0, 100)[{{}, 1}]:tolist())
      assert.same({4 * -100}, product(torch.full({1, 4}, -1e30), 1.0, 100)[{{}, 1}]:tolist())
      local w, s = panels(torch.ones(2, 1, 1, 1))
      local image = torch.ones(2, 1, 3, 3)
      image[{2, 1, 2, 2}] = nan
      local y = torch._quantized_conv2d(image, w, torch.ones(2), s, torch.zeros(2), {1, 1})
      assert.same({false, true}, y:flatten(2):isnan():all(2):tolist())
   end)

   it("have the same bits for any number of threads", function()
      if device.name == "cuda" then return pending "the operators are on the CPU alone" end
      local w, s = panels(integers(40, 32, 3, 3))
      local x, before = torch.randn(2, 32, 30, 30), torch.get_num_threads()
      local function product()
         return torch._quantized_conv2d(x, w, torch.ones(40), s, torch.zeros(40), {3, 3}, {1, 1}, {1, 1})
      end
      torch.set_num_threads(1)
      local y = product()
      torch.set_num_threads(2)
      assert.is_true(torch.equal(y, product()))
      torch.set_num_threads(before)
   end)

   it("refuse other tensors", function()
      if device.name == "cuda" then return pending "the operators are on the CPU alone" end
      local w, s = panels(torch.ones(3, 4))
      local x, scales = torch.ones(1, 4), torch.ones(3)
      local function refused(text, ...)
         local given = table.pack(...)
         assert.raises("_quantized_linear", text, function()
            torch._quantized_linear(table.unpack(given, 1, given.n))
         end)
      end
      refused("self: expected a floating dtype, got int64", x:to "int64", w, scales, s)
      refused("weight: expected 128 elements of int8", torch.ones(1, 5), w, scales, s)
      refused("weight: expected 64 elements of int8, got float32", x, w:float(), scales, s)
      refused("sums: expected 3 elements of int32, got int64", x, w, scales, s:to "int64")
      refused("bias: expected 3 elements of float32", x, w, scales, s, torch.ones(2))
      refused("scale of at least 0", x, w, scales, s, nil, -1.0, 0)
      refused("zero point of 0 to 255", x, w, scales, s, nil, 1.0, 256)
      assert.raises("_quantized_conv2d", "the kernel is larger", function()
         torch._quantized_conv2d(torch.ones(1, 4, 1, 1), (panels(torch.ones(3, 4, 3, 3))), scales, s, scales, {3, 3})
      end)
   end)
end)

describe("quantize_", function()
   local default

   -- Programs with 8-bit integers run only on the CPU.
   before_each(function()
      default = torch.get_default_device()
      torch.set_default_device "cpu"
      torch.manual_seed(1)
   end)
   after_each(function() torch.set_default_device(default) end)

   local function error_of(got, expected) return ((got - expected):norm() / expected:norm()):item() end

   it("changes linear layers and convolutions, and merges batch norm and relu into them", function()
      local model = nn.Sequential(nn.Conv2d(3, 16, 3, {padding = 1, bias = false}), nn.BatchNorm2d(16), nn.ReLU(),
         nn.Conv2d(16, 16, 3, {groups = 4}), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 36, 20), nn.ReLU(),
         nn.Linear(20, 5)):eval()
      model[2].running_mean:uniform_(-0.2, 0.2)
      model[2].running_var:uniform_(0.5, 2)
      local x = torch.randn(4, 3, 8, 8)
      local y = torch.export(model, {x})(x)
      for _, config in ipairs {{}, {kind = "static", calibration = {x, {torch.randn(4, 3, 8, 8)}}}} do
         local program = torch.export(model, {x}, {dynamic = {input = {1}}})
         assert.equal(program, quantize_(program, config))
         local text = tostring(program)
         local _, convs = text:gsub("_quantized_conv2d%(", "")
         local _, linears = text:gsub("_quantized_linear%(", "")
         assert.same({1, 2}, {convs, linears})
         assert.is_nil(text:find("batch_norm", 1, true))
         assert.truthy(text:find("groups = 4", 1, true))
         local result = program(x)
         assert.is_true(error_of(result, y) < 0.03, error_of(result, y))
         assert.same({2, 5}, program(x[{{1, 2}}]).shape)
         local path <const> = os.tmpname()
         program:save(path)
         assert.is_true(torch.equal(result, torch.export.load(path)(x)))
         os.remove(path)
      end
      local program = torch.export(model, {x})
      quantize_(program, {skip = {"7.weight"}})
      local _, count = tostring(program):gsub("_quantized_linear%(", "")
      assert.equal(1, count)
   end)

   it("passes bytes through depthwise convolutions if the ranges are known", function()
      local model = nn.Sequential(nn.Conv2d(3, 32, 3, {padding = 1}), nn.ReLU6(),
         nn.Conv2d(32, 32, 3, {groups = 32, padding = 1}), nn.ReLU6(), nn.Conv2d(32, 8, 1)):eval()
      local x = torch.randn(2, 3, 9, 9)
      local program = torch.export(model, {x})
      local y = program(x)
      quantize_(program, {kind = "static", calibration = {x}})
      local text = tostring(program)
      local function count(pattern) return select(2, text:gsub(pattern, "")) end
      assert.same({3, 2, 1}, {count "_quantized_conv2d%(", count "out_scale = 0%.0%d", count "depthwise = true"}, text)
      assert.is_true(error_of(program(x), y) < 0.03, error_of(program(x), y))
      program = quantize_(torch.export(model, {x}))
      text = tostring(program)
      assert.same({2, 1}, {count "_quantized_conv2d%(", count "_conv2d_packed%("}, text)
   end)

   it("packs weights of linear layers in blocks of 8 or 4 bits", function()
      local model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 33), nn.Linear(33, 4)):eval()
      model[1].weight.data[{1, {1, 32}}] = 0
      local x = torch.randn(5, 64)
      local y = model(x):detach()
      for bits, most in pairs {[8] = 0.02, [4] = 0.2} do
         local program = torch.export(model, {x})
         local bytes = quantize_(program, {kind = "weight_only", bits = bits}):state_dict()["1.weight.packed"]
         assert.same({96, 2 * (2 + 4 * bits)}, bytes.shape)
         local _, count = tostring(program):gsub("packed_linear%(", "")
         assert.equal(2, count) -- the third layer stays, since its 33 inputs are no multiple of 32
         assert.is_true(error_of(program(x), y) < most, error_of(program(x), y))
         local values = nn.functional.packed_values(bytes, bits == 8 and "Q8_0" or "Q4_0")
         local block = model[1].weight:detach():view(96, 2, 32)
         local step = block:abs():amax(3, true) / (bits == 8 and 127 or 8)
         local off = (values:view(96, 2, 32) - block):abs() / step:clamp_min(1e-9)
         assert.is_true(off:max():item() < (bits == 8 and 0.6 or 1.01), off:max():item())
         assert.equal(0, values[{1, {1, 32}}]:abs():max():item())
      end
   end)

   it("misreads at most one more of 360 digits", function()
      local rows = torch.data.CSV("examples/data/digits.csv", {header = false}):tensor()
      local images = rows:narrow(2, 1, 64):float():div(16):view(-1, 1, 8, 8)
      local classes = rows:select(2, 65) + 1
      local order = torch.randperm(#rows)
      local train, test = order[{{1, #rows - 360}}], order[{{#rows - 359, #rows}}]
      local model = nn.Sequential(nn.Conv2d(1, 16, 3, {padding = 1}), nn.BatchNorm2d(16), nn.ReLU(),
         nn.Conv2d(16, 32, 3, {padding = 1}), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(512, 64), nn.ReLU(),
         nn.Linear(64, 10))
      local optimizer = torch.optim.Adam(model:parameters(), {lr = 3e-3})
      for _ = 1, 4 do
         for i = 1, #train - 63, 64 do
            local batch = train[{{i, i + 63}}]
            optimizer:zero_grad()
            nn.functional.cross_entropy(model(images:index_select(1, batch)), classes:index_select(1, batch)):backward()
            optimizer:step()
         end
      end
      model:eval()
      local x, expected = images:index_select(1, test), classes:index_select(1, test)
      local function right(program) return program(x):argmax(2):eq(expected):sum():item() end
      local float = right(torch.export(model, {x}))
      assert.is_true(float > 330, float)
      local example = images:index_select(1, train[{{1, 360}}])
      local dynamic = right(quantize_(torch.export(model, {x})))
      local static = right(quantize_(torch.export(model, {x}), {kind = "static", calibration = {example}}))
      assert.is_true(dynamic >= float - 1, ("%d of %d"):format(dynamic, float))
      assert.is_true(static >= float - 1, ("%d of %d"):format(static, float))
   end)

   it("refuses what it cannot change", function()
      local linear = torch.export(nn.Linear(2, 3):eval(), {torch.ones(1, 2)})
      local function refused(text, ...)
         local given = table.pack(...)
         assert.raises("ao.quantization.quantize_", text, function() quantize_(table.unpack(given, 1, given.n)) end)
      end
      refused("program: expected a program that torch.export has made, got", nn.Linear(2, 3))
      refused("unknown option bit", linear, {bit = 4})
      refused("bits: expected 8, got 4", linear, {bits = 4})
      refused("bits: expected 8 or 4, got 2", linear, {kind = "weight_only", bits = 2})
      refused("expected linear layers", linear, {kind = "weight_only"})
      refused("kind: expected", linear, {kind = "int4"})
      refused("calibration: expected a list of at least one input", linear, {kind = "static"})
      refused("calibration: expected a list of at least one input", linear, {kind = "static", calibration = {}})
      refused("calibration: expected nil unless the kind is", linear, {calibration = {torch.ones(1, 2)}})
      refused("expected linear layers", torch.export(nn.ReLU():eval(), {torch.ones(1)}))
      refused("evaluation mode", torch.export(nn.Linear(2, 3), {torch.ones(1, 2)}))
      refused("finite numbers", linear, {kind = "static", calibration = {torch.full({1, 2}, math.huge)}})
   end)
end)
