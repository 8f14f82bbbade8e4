-- Tests Fourier transforms, short-time transforms and windows by comparing them with PyTorch's results
-- (spec/fixtures/fft.py). Tests the kernel's accuracy for many lengths by comparing it with a matrix product.
-- spec/ops/table_spec.lua tests gradients, layouts and dtypes.

local torch = require "tlua"

local reference = dofile "spec/fixtures/fft.lua"

-- Returns signal k of fft.py, which has n numbers.
local function signal(n, k)
   local i = torch.arange(n, {dtype = "float64"})
   return (i * 1.3 + i * (i % 7) * 0.01 + 0.7 * k):sin() + 0.25 * k
end

local function shaped(shape, is_complex)
   local n = 1
   for _, size in ipairs(shape) do n = n * size end
   local x = is_complex and torch.complex(signal(n, 1), signal(n, 2)) or signal(n, 1)
   return x:reshape(shape)
end

-- Compares a tensor with a list of numbers in which real and imaginary parts alternate.
local function close(expected, actual, tol, what)
   if actual:is_complex() then actual = actual:view_as_real() end
   local want = torch.tensor(expected, {dtype = "float64"}):reshape(actual.shape)
   local far = want:numel() > 0 and (want - actual:double()):abs():max():item() or 0
   assert(far <= tol, ("%s: off by %g"):format(what, far))
end

-- Returns the root mean square of the differences, relative to the root mean square of the expected values.
local function distance(expected, actual)
   local function size(t) return t:abs():square():mean():sqrt():item() end
   return size(expected - actual:to(expected.dtype)) / size(expected)
end

local function within(far, tol, what)
   assert(far < tol, ("%s: off by %g, expected less than %g"):format(what, far, tol))
end

local tolerance = {float32 = 5e-7, float64 = 2e-15}
local complex_of = {float32 = "complex64", float64 = "complex128"}

describe("torch.fft", function()
   it("gives PyTorch's results", function()
      for _, row in ipairs(reference.transforms) do
         local name, shape, is_complex, n, dim, norm, size, values = table.unpack(row, 1, 8)
         local x = shaped(shape, is_complex)
         local what = ("%s of (%s)"):format(name, table.concat(shape, ", "))
         local y = torch.fft[name](x, n, dim, norm)
         assert.same(size, {table.unpack(y.shape)}, what)
         close(values, y, 1e-12, what)
         assert.equal(name:find "^i?rfft" and not name:find "^rfft" and "float64"
            or name:find "^hfft" and "float64" or "complex128", y.dtype)
      end
   end)

   it("is right for long signals of all kinds of lengths", function()
      for _, row in ipairs(reference.lengths) do
         local n, places, values, mean = table.unpack(row)
         local x = shaped({n}, true)
         local y = torch.fft.fft(x)
         local at = torch.tensor(places):add(1)
         close(values, y[at], 1e-8, "fft of " .. n)
         within(math.abs(y:abs():mean():item() / mean - 1), 1e-12, n)
         within(distance(x, torch.fft.ifft(y)), 3e-15, n)
         within(distance(y, torch.fft.fft(x:to "complex64")), 1e-6, n)
         local real = torch.fft.rfft(torch.real(x))
         within(distance(torch.fft.fft(torch.real(x))[{{1, n // 2 + 1}}], real), 3e-15, n)
         within(distance(torch.real(x):contiguous(), torch.fft.irfft(real, n)), 3e-15, n)
      end
   end)

   -- 17^5 elements become a matrix of 289 columns and rows of 4913 elements, which are long themselves.
   it("is right for a long signal whose parts are long", function()
      local n = 1419857
      local x = torch.zeros(n, {dtype = "complex64"})
      x[2] = 1
      local y, angle = torch.fft.fft(x), torch.arange(n, {dtype = "float64"}) * (-2 * math.pi / n)
      within(distance(torch.complex(angle:cos(), angle:sin()), y), 1e-6, n)
      within(distance(x, torch.fft.ifft(y)), 1e-6, n)
   end)

   for dtype, tol in pairs(tolerance) do
      it("is right for every length to 130 and some above, alone and in batches, in " .. dtype, function()
         for i = 1, 140 do
            local n = i <= 130 and i or ({144, 176, 224, 240, 256, 336, 400, 448, 509, 512})[i - 130]
            local k = torch.arange(n)
            local angle = ((k:unsqueeze(2) * k) % n):double() * (-2 * math.pi / n)
            local matrix = torch.complex(angle:cos(), angle:sin())
            for _, batch in ipairs {1, 5, 17} do
               local x = torch.complex(signal(batch * n, 1), signal(batch * n, 3)):reshape(batch, n)
               local want = x:matmul(matrix)
               local narrow = x:to(complex_of[dtype])
               local what = ("%d x %d"):format(batch, n)
               assert(distance(want, torch.fft.fft(narrow)) < tol, what)
               assert(distance(want:t(), torch.fft.fft(narrow:t(), nil, 1)) < tol, what)
               assert(distance(x, torch.fft.ifft(want:to(complex_of[dtype]))) < tol, what)
               local real = torch.real(x):contiguous()
               local half = torch.fft.rfft(real:to(dtype))
               local wide = torch.fft.fft(real)[{{}, {1, n // 2 + 1}}]
               assert(distance(wide, half) < tol, what)
               assert(distance(real, torch.fft.irfft(wide:to(complex_of[dtype]), n)) < tol, what)
            end
         end
      end)
   end

   it("transforms images as it transforms their dimensions one after another", function()
      local x = shaped({5, 90, 48, 64}, false)
      local full = torch.fft.fft(torch.fft.fft(x:to "complex128", nil, 4), nil, 2)
      local half = full[{{}, {}, {}, {1, 33}}]
      for _, count in ipairs {5, 1} do
         local some, want = x[{{1, count}}], half[{{1, count}}]
         within(distance(full[{{1, count}}], torch.fft.fftn(some, nil, {2, 4})), 1e-15, "fftn")
         within(distance(want, torch.fft.rfftn(some, nil, {2, 4})), 1e-15, "rfftn")
         within(distance(want:conj() / (90 * 64), torch.fft.ihfftn(some, nil, {2, 4})), 1e-15, "ihfftn")
         within(distance(some, torch.fft.irfftn(want, {90, 64}, {2, 4})), 1e-15, "irfftn")
         within(distance(some * (90 * 64), torch.fft.hfftn(want:conj(), {90, 64}, {2, 4})), 1e-15, "hfftn")
         local turned = torch.fft.rfftn(some:transpose(2, 4), nil, {4, 2}):transpose(2, 4)
         within(distance(want, turned), 1e-15, "rfftn of a transposed tensor")
      end
   end)

   it("gives the same bits with any number of threads", function()
      local threads = torch.get_num_threads()
      for _, shape in ipairs {{200000}, {65537}, {300, 1000}, {3, 100, 40}, {33, 128}} do
         local x = shaped(shape, true):to "complex64"
         local results = {}
         for i = 1, 3 do
            torch.set_num_threads(i)
            results[i] = torch.fft.fftn(x)
         end
         torch.set_num_threads(threads)
         assert.is_true(results[1]:equal(results[2]) and results[1]:equal(results[3]))
      end
   end)

   it("keeps NaN and infinity in their own signal", function()
      for _, n in ipairs {4, 7, 12, 37, 64, 112, 224, 256} do
         local x = torch.randn(40, n)
         x[{3, 1}], x[{20, n}] = 0 / 0, math.huge
         for _, name in ipairs {"fft", "rfft", "irfft", "ihfft"} do
            local y = torch.fft[name](x)
            local bad = (y:is_complex() and y:view_as_real():flatten(2) or y):isfinite():logical_not()
            assert.same({3, 20}, bad:any(2):nonzero():flatten():tolist(), name .. n)
         end
      end
   end)

   it("ignores the imaginary parts that a Hermitian signal cannot have", function()
      for _, n in ipairs {6, 7, 64, 2048} do
         local half = torch.fft.rfft(signal(n, 1))
         local expected = torch.fft.irfft(half, n)
         half.imag[1] = 5
         if n % 2 == 0 then half.imag[-1] = 7 end
         assert.is_true(expected:equal(torch.fft.irfft(half, n)))
      end
   end)

   it("takes integers, booleans and half types, and empty batches", function()
      for _, dtype in ipairs {"int64", "uint8", "bool", "float16", "bfloat16"} do
         local x = torch.tensor({1, 0, 1}):to(dtype)
         assert.equal("complex64", torch.fft.fft(x).dtype)
         assert.equal("complex64", torch.fft.rfft(x).dtype)
         assert.equal("float32", torch.fft.irfft(x).dtype)
         close({2, 0, 0.5, math.sqrt(0.75), 0.5, -math.sqrt(0.75)}, torch.fft.fft(x), 1e-6, dtype)
      end
      assert.same({0, 3}, {table.unpack(torch.fft.fft(torch.zeros(0, 3)).shape)})
      assert.same({3, 0, 2}, {table.unpack(torch.fft.rfft2(torch.zeros(2, 0, 2), {3, 2}, {1, 3}).shape)})
      assert.equal("complex64", torch.fft.fftn(torch.tensor(2.0)).dtype)
      assert.equal(2, torch.real(torch.fft.fftn(torch.tensor(2.0))):item())
      assert.same({2, 2}, {table.unpack(torch.fft.fftn(torch.ones(2, 2), nil, {}).shape)})
   end)

   it("writes to out, and does not change its input", function()
      local x = shaped({4, 6}, true)
      local copy, out = x:clone(), torch.empty({0}, {dtype = "complex128"})
      torch.fft.fft(x, {out = out})
      assert.is_true(out:equal(torch.fft.fft(x)))
      assert.is_true(copy:equal(x))
   end)

   it("refuses wrong arguments by name", function()
      local x = torch.ones(2, 3)
      for message, call in pairs {
         ["fft.fft: input: expected at least one dimension, got none"] =
            function() torch.fft.fft(torch.tensor(1.0)) end,
         ["fft.fft: n: expected at least 1, got 0"] = function() torch.fft.fft(x, 0) end,
         ["fft.fft: dimension 3 is out of range for 2 dimensions: expected 1 to 2 or -2 to -1"] =
            function() torch.fft.fft(x, nil, 3) end,
         ["fft.fft: norm: expected 'backward', 'ortho' or 'forward', got 'half'"] =
            function() torch.fft.fft(x, nil, 1, "half") end,
         ["fft.fftn: dim: dimension 2 appears twice"] = function() torch.fft.fftn(x, nil, {2, -1}) end,
         ["fft.fftn: s: expected a size for each of the 2 dimensions in dim, got 1"] =
            function() torch.fft.fftn(x, {2}, {1, 2}) end,
         ["fft.fftn: s: got 3 sizes for a tensor of shape [2, 3]"] = function() torch.fft.fftn(x, {2, 2, 2}) end,
         ["fft.rfftn: dim: expected at least one dimension"] = function() torch.fft.rfftn(x, nil, {}) end,
         ["fft.irfft: expected a signal of at least 1 element along dimension 2, got 0"] =
            function() torch.fft.irfft(torch.ones(2, 1)) end,
         ["fft.fft2: expected a signal of at least 1 element along dimension 1, got 0"] =
            function() torch.fft.fft2(torch.ones(0, 3)) end,
         ["fft.rfft: does not take complex numbers"] = function() torch.fft.rfft(shaped({3}, true)) end,
         ["fft.fftfreq: n: expected at least 1, got 0"] = function() torch.fft.fftfreq(0) end,
      } do
         assert.raises(message, call)
      end
   end)

   it("has frequencies and their order", function()
      for _, row in ipairs(reference.frequencies) do
         close(row[4], torch.fft[row[1]](row[2], row[3], {dtype = "float64"}), 1e-12, row[1])
      end
      for n = 1, 6 do
         local x = torch.arange(2 * n):reshape(2, n)
         assert.is_true(x:equal(torch.fft.ifftshift(torch.fft.fftshift(x))))
         local f = torch.fft.fftshift(torch.fft.fftfreq(n))
         assert.is_true(f:equal((f:sort())))
      end
   end)

   it("uses many plans without keeping all of them", function()
      for n = 50, 250 do
         local x = signal(n, 1)
         assert(distance(x, torch.fft.irfft(torch.fft.rfft(x), n)) < 2e-15, n)
      end
   end)
end)

it("an empty table after the signal has no options, and no sizes", function()
   local x = shaped({4, 6})
   for name in ("fft2 ifft2 rfft2 irfft2 fftn ifftn rfftn irfftn hfftn ihfftn"):gmatch "%w+" do
      local transform = torch.fft[name]
      assert.is_true(transform(x, {}):equal(transform(x)), name)
      assert.is_true(transform(x, {norm = nil}):equal(transform(x)), name)
   end
end)

describe("torch.stft", function()
   it("refuses an unknown pad_mode", function()
      assert.raises('stft: pad_mode: expected "reflect", "constant", "replicate" or "circular", got "zeros"',
         function() torch.stft(signal(16, 1), 4, {pad_mode = "zeros"}) end)
   end)

   local window = torch.hann_window(8, {dtype = "float64"})

   local function options(given)
      local copy = {}
      for key, value in pairs(given) do copy[key] = key == "window" and window or value end
      return copy
   end

   it("gives PyTorch's results", function()
      local x = shaped({2, 40}, false)
      for i, row in ipairs(reference.stft) do
         local y = torch.stft(x, options(row[1]))
         assert.same(row[2], {table.unpack(y.shape)}, i)
         close(row[3], y, 1e-12, "stft " .. i)
         local parts = options(row[1])
         parts.return_complex = false
         local n = parts.n_fft
         parts.n_fft = nil
         assert.is_true(y:view_as_real():equal(x:stft(n, parts)))
         assert(distance(y[1], torch.stft(x[1], options(row[1]))) < 1e-15)
      end
   end)

   it("has an inverse that gives PyTorch's results", function()
      for i, row in ipairs(reference.istft) do
         local y = torch.istft(shaped(row[1], true), options(row[2]))
         assert.same(row[3], {table.unpack(y.shape)}, i)
         close(row[4], y, 1e-12, "istft " .. i)
      end
      local x = shaped({3, 100}, false)
      local z = x:stft(16, {window = torch.hann_window(16, {dtype = "float64"})})
      local y = z:istft(16, {window = torch.hann_window(16, {dtype = "float64"}), length = 100})
      assert(distance(x, y) < 1e-14)
   end)

   it("has gradients of both orders, and of the window", function()
      local x = shaped({2, 20}, false):requires_grad_()
      local w = window:clone():requires_grad_()
      local function forward(signals, win) return torch.stft(signals, 8, 3, {window = win}) end
      assert.is_true(torch.autograd.gradcheck(forward, {x, w}))
      assert.is_true(torch.autograd.gradgradcheck(forward, {x, w}))
      local z = shaped({5, 6}, true):requires_grad_()
      local function back(columns, win) return torch.istft(columns, 8, 2, {window = win}) end
      assert.is_true(torch.autograd.gradcheck(back, {z, w}))
      assert.is_true(torch.autograd.gradgradcheck(back, {z, w}))
   end)

   it("refuses wrong arguments by name", function()
      local x, z = torch.ones(40), torch.zeros(5, 6, {dtype = "complex64"})
      for message, call in pairs {
         ["stft: input: expected one or two dimensions"] = function() torch.stft(torch.ones(1, 1, 9), 4) end,
         ["stft: input: expected floating or complex numbers"] = function() torch.stft(torch.arange(9), 4) end,
         ["stft: n_fft: expected less than twice the signal's length, 40"] = function() torch.stft(x, 80) end,
         ["stft: n_fft: expected at most the signal's length, 40, got 41"] =
            function() torch.stft(x, 41, {center = false}) end,
         ["stft: n_fft: expected at least 1, got 0"] = function() torch.stft(x, 0) end,
         ["stft: hop_length: expected at least 1, got 0"] = function() torch.stft(x, 8, 0) end,
         ["stft: win_length: expected 1 to n_fft, 8, got 9"] = function() torch.stft(x, 8, 2, 9) end,
         ["stft: window: expected a vector of win_length, 8, numbers"] =
            function() torch.stft(x, 8, {window = torch.ones(4)}) end,
         ["stft: onesided: expected false for complex signals or windows"] =
            function() torch.stft(torch.complex(x, x), 8, {onesided = true}) end,
         ["istft: input: expected complex numbers"] = function() torch.istft(torch.ones(5, 6), 8) end,
         ["istft: input: expected 6 frequencies for n_fft = 10, onesided"] = function() torch.istft(z, 10) end,
         ["istft: hop_length: expected at most win_length, 4, got 5"] = function() torch.istft(z, 8, 5, 4) end,
         ["istft: window: expected windows whose squares add up to more than 0 everywhere"] =
            function() torch.istft(z, 8, 2, {window = torch.zeros(8)}) end,
      } do
         assert.raises(message, call)
      end
   end)
end)

describe("windows", function()
   it("are PyTorch's", function()
      for _, row in ipairs(reference.windows) do
         local list = table.move(row[2], 1, #row[2], 1, {})
         local last = list[#list]
         if type(last) ~= "table" then
            last = {}
            list[#list + 1] = last
         end
         last.dtype = "float64"
         local fn = torch
         for part in row[1]:gmatch "[^.]+" do fn = fn[part] end
         local w = fn(table.unpack(list))
         assert.equal(#row[3], w:numel(), row[1])
         close(row[3], w, 1e-12, row[1])
      end
   end)

   it("have the dtype, device and history that are asked for", function()
      assert.equal("float32", torch.hann_window(4).dtype)
      assert.equal("float16", torch.signal.windows.hann(4, {dtype = "float16"}).dtype)
      assert.is_true(torch.kaiser_window(4, {requires_grad = true}).requires_grad)
      assert.equal("cpu", tostring(torch.hann_window(4, {device = "cpu"}).device))
   end)

   it("refuse wrong arguments by name", function()
      local windows = torch.signal.windows
      for message, call in pairs {
         ["hann_window: window_length: expected an integer of at least 0, got -1"] =
            function() torch.hann_window(-1) end,
         ["signal.windows.hann: dtype: expected a floating type"] = function() windows.hann(3, {dtype = "int64"}) end,
         ["signal.windows.gaussian: std: expected more than 0, got 0"] = function() windows.gaussian(3, 0) end,
         ["signal.windows.kaiser: beta: expected at least 0, got -1"] = function() windows.kaiser(3, -1) end,
         ["signal.windows.exponential: center: expected none if sym is true, got 1"] =
            function() windows.exponential(3, 1) end,
         ["signal.windows.exponential: tau: expected more than 0, got 0"] =
            function() windows.exponential(3, {tau = 0}) end,
         ["signal.windows.general_cosine: a: expected at least one number"] =
            function() windows.general_cosine(3, {a = {}}) end,
      } do
         assert.raises(message, call)
      end
   end)
end)
