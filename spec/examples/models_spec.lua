-- Tests short runs of the smaller examples: they end normally and learn something.
local shell = require "spec.support.shell"

local tlua = shell.start()

-- Runs an example in a separate folder and returns its output. `{}` in the arguments stands for that folder.
local function run(name, arguments, check)
   return shell.with_folder(function(folder)
      local output, status = shell.run(("%s examples/%s.lua %s"):format(
         tlua, name, (arguments:gsub("{}", shell.quote(folder)))))
      assert.equal(0, status, output)
      if check then check(folder) end
      return output
   end)
end

-- Returns the first n bytes of a file.
local function head(path, n)
   local file <close> = assert(io.open(path, "rb"))
   return file:read(n)
end

-- Returns a function that checks that a file in the folder is a PNG image.
local function is_png(name)
   return function(folder) assert.equal("\x89PNG\r\n\x1A\n", head(folder .. "/" .. name, 8)) end
end

it("examples/regression.lua finds the curve, and draws it", function()
   local output = run("regression", "--steps 300 --plot {}/fit.svg",
      function(folder) assert.matches("^<svg", head(folder .. "/fit.svg", 10)) end)
   assert.matches("300 steps, loss", output, 1, true)
   assert.matches("curve: 0.7206", output, 1, true)
   local distance = tonumber(output:match "from the curve: (%d%.%d+)")
   assert.is_true(distance < 0.25, output)
end)

it("examples/function.lua learns with rounded weights", function()
   local output = run("function", "--steps 200")
   assert.matches("gradcheck of Swish: ok", output, 1, true)
   local right = tonumber(output:match "step  200  loss %d%.%d+  accuracy (%d%.%d+)")
   assert.is_true(right > 0.9, output)
   local minus, zero, one = output:match "weights of %-1: (%d+), 0: (%d+), 1: (%d+)"
   assert.equal(64 * 64, minus + zero + one)
end)

it("examples/lstm.lua learns from sequences of different lengths", function()
   local output = run("lstm", "--steps 200 --longest 8 --hidden 24 --lr 1e-2")
   local right = tonumber(output:match "test accuracy: (%d%.%d+)")
   assert.is_true(right > 0.8, output)
end)

it("examples/vae.lua lowers its loss and draws", function()
   local output = run("vae", "--epochs 4 --save {}/digits.png", is_png "digits.png")
   local last, first = output:match "4 epochs, loss ([%d.]+) .* at first ([%d.]+)"
   assert.is_true(tonumber(last) < tonumber(first) - 1, output)
end)

it("examples/onnx.lua writes a trained model that loads with the same scores, and trains on", function()
   local output = run("onnx", "--epochs 3 --save {}/digits.onnx")
   local before, after = output:match "trained: accuracy ([%d.]+).*loaded: accuracy ([%d.]+)"
   local difference, last = output:match "largest difference ([%d.e+-]+).*further: accuracy ([%d.]+)"
   assert.is_true(tonumber(before) > 0.8 and tonumber(last) > 0.8, output)
   assert.equal(before, after)
   assert.is_true(tonumber(difference) < 1e-4, output)
end)

it("examples/fft.lua finds the tones, removes noise and draws", function()
   local output = run("fft", "--save {}/spectrogram.png", is_png "spectrogram.png")
   assert.truthy(output:find("strongest tones: 440 and 660 Hz", 1, true), output)
   local before, after = output:match "signal to noise: ([%d.]+) dB before, ([%d.]+) dB after"
   assert.is_true(tonumber(after) > tonumber(before) + 10, output)
end)

it("examples/diffusion.lua lowers its loss and draws", function()
   local output = run("diffusion", "--steps 100 --times 20 --width 64 --save {}/digits.png", is_png "digits.png")
   local last, first = output:match "100 steps, loss ([%d.]+), at first ([%d.]+)"
   assert.is_true(tonumber(last) < tonumber(first) * 0.8, output)
end)

it("examples/cartpole.lua keeps the pole up longer and longer", function()
   local output = run("cartpole", "--updates 25 --longest 200")
   local first, last = output:match "first: (%d+) steps, last: (%d+) of at most 200"
   assert.is_true(tonumber(last) > 2 * tonumber(first), output)
end)

it("examples/recommend.lua predicts ratings better than each item's mean, and changes few rows in a step", function()
   local output = run("recommend", "--items 100000 --ratings 400000 --epochs 3")
   local mean, of_item, model = output:match "all: ([%d.]+), the item's mean: ([%d.]+), the model: ([%d.]+)"
   assert.is_true(tonumber(model) < 0.8 * tonumber(of_item) and tonumber(of_item) < tonumber(mean), output)
   local changed = output:match "a step changes (%d+) of 100000 items"
   assert.is_true(tonumber(changed) < 8192, output)
end)

it("examples/bayes.lua finds the posteriors that the closed forms have", function()
   local output = run("bayes", "")
   local divergences = 0
   for value in output:gmatch "divergence +(%d+%.%d+)" do
      divergences = divergences + 1
      assert.is_true(tonumber(value) < 0.02, output)
   end
   assert.equal(2, divergences)
   local found, exact = output:match "standard deviation +([%d.]+) +exact +([%d.]+)"
   assert.is_true(math.abs(found / exact - 1) < 0.1, output)
end)

it("examples/transfer.lua gives PyTorch's scores, and saves by PyTorch's names", function()
   local output = run("transfer", "--epochs 2 --save {}/w.safetensors", function(folder)
      local header = head(folder .. "/w.safetensors", 400)
      assert.matches('"0.weight"', header, 1, true)
      assert.matches('"2.bias"', header, 1, true)
   end)
   assert.matches("test accuracy as PyTorch has left it: 0.9083", output, 1, true)
   assert.matches("after 2 epochs more:    0.%d+", output)
end)

it("examples/resume.lua ends with the same bits whether it was killed or not", function()
   local whole = run("resume", "--steps 30 --every 4 --checkpoint {}/a.safetensors")
   shell.with_folder(function(folder)
      local command = ("%s examples/resume.lua --steps 30 --every 4 --checkpoint %s/a.safetensors")
         :format(tlua, shell.quote(folder))
      local first, status = shell.run(command .. " --die-at 15")
      assert.not_equal(0, status)
      assert.matches("step 15: killed", first, 1, true)
      local second = shell.run(command)
      assert.matches("^going on from step 12\n", second)
      assert.equal(whole:match "step 30: [^\n]+", second:match "step 30: [^\n]+")
   end)
end)

describe("examples/gpt.lua", function()
   it("learns and writes text", function()
      local output = run("gpt", "--steps 30 --width 32 --layers 1 --batch 4 --write 20 --prompt 'local '")
      local loss = tonumber(output:match "not seen: (%d%.%d+)")
      assert.is_true(loss < 3.8, output) -- guessing uniformly among 90 letters would give a loss of 4.5
      assert.matches("it writes:\nlocal ", output, 1, true)
   end)

   it("takes another text", function()
      local output = run("gpt", "--text README.md --steps 2 --width 16 --layers 1 --batch 2 --write 1")
      assert.matches("letters of text", output, 1, true)
   end)
end)
