-- portable.lua - measures the cost of use_deterministic_algorithms "portable". Training steps run on one thread, in
-- turn in the fast mode and in the portable mode. Times are processor time. The build must contain the portable
-- instruction set (ISAS).
--
--    build/tlua spec/bench/portable.lua

local torch = require "tlua"
local nn = torch.nn

torch.set_num_threads(1)
torch.manual_seed(1)

-- Returns a function that makes a training step.
local function training(model, optimizer, x)
   return function()
      optimizer:zero_grad()
      model(x):square():mean():backward()
      optimizer:step()
   end
end

local convnet <const> = nn.Sequential(nn.Conv2d(1, 32, 3, {padding = 1}), nn.ReLU(),
   nn.Conv2d(32, 64, 3, {padding = 1}), nn.ReLU(),
   nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1024, 128), nn.ReLU(), nn.Linear(128, 10))
local layer <const> = nn.TransformerEncoderLayer(128, 4, 512, {batch_first = true, activation = "gelu"})
local lstm <const> = nn.LSTM(64, 128)
local rows <const> = {
   {"convnet, 32 of 8 x 8, Adam", training(convnet, torch.optim.Adam(convnet:parameters()), torch.randn(32, 1, 8, 8))},
   {"transformer layer, 16 x 64 x 128, AdamW", training(layer, torch.optim.AdamW(layer:parameters()),
      torch.randn(16, 64, 128))},
   {"LSTM 64-128, 32 steps of 16, SGD", training(function(x) return (lstm(x)) end,
      torch.optim.SGD(lstm:parameters(), {lr = 0.01}), torch.randn(32, 16, 64))},
}

local function time(mode, fn)
   torch.use_deterministic_algorithms(mode)
   fn()
   local start = os.clock()
   for _ = 1, 5 do fn() end
   local seconds = (os.clock() - start) / 5
   torch.use_deterministic_algorithms(false)
   return seconds
end

local form <const> = "%-42s %9s %9s %6s"
print(form:format("milliseconds", "fast", "portable", "times"))
for _, row in ipairs(rows) do
   local fast, portable = math.huge, math.huge
   for _ = 1, 12 do
      fast, portable = math.min(fast, time(false, row[2])), math.min(portable, time("portable", row[2]))
   end
   print(form:format(row[1], ("%.2f"):format(fast * 1e3), ("%.2f"):format(portable * 1e3),
      ("%.2f"):format(portable / fast)))
end
