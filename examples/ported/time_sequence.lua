-- Two LSTM cells learn a sine wave by L-BFGS in float64, and continue it:
--
--    tlua examples/ported/time_sequence.lua
local torch = require "tlua"
local nn, optim = torch.nn, torch.optim

local parser = torch.utils.options("time_sequence.lua", "Learns a sine wave and goes on with it.")
parser:option("--steps", "steps of L-BFGS", 4)
parser:option("--future", "numbers to go on with", 40)
parser:option("--seed", "seed of the random numbers", 0)
local opt = parser:parse()

torch.manual_seed(opt.seed)

local length, waves, T = 120, 12, 20
local start = torch.randint(-4 * T, 4 * T, {waves, 1})
local x = (torch.arange(0, length) + start):double()
local data = torch.sin(x / T * 2)

local Sequence, parent = torch.class("Sequence", nn.Module)

function Sequence:__init()
   parent.__init(self)
   self.lstm1 = nn.LSTMCell(1, 24)
   self.lstm2 = nn.LSTMCell(24, 24)
   self.linear = nn.Linear(24, 1)
end

function Sequence:forward(input, future)
   local outputs = {}
   local function zeros() return torch.zeros(input:size(1), 24, {dtype = torch.double}) end
   local h_t, c_t, h_t2, c_t2 = zeros(), zeros(), zeros(), zeros()
   local output
   local function advance(input_t)
      h_t, c_t = self.lstm1(input_t, {h_t, c_t})
      h_t2, c_t2 = self.lstm2(h_t, {h_t2, c_t2})
      output = self.linear(h_t2)
      outputs[#outputs + 1] = output
   end
   for _, input_t in ipairs(input:split(1, 2)) do advance(input_t) end
   for _ = 1, future or 0 do advance(output) end
   return torch.cat(outputs, 2)
end

local seq = Sequence():double()
local criterion = nn.MSELoss()
local input, target = data[{{4, -1}, {1, -2}}], data[{{4, -1}, {2, -1}}]
local test_input, test_target = data[{{1, 3}, {1, -2}}], data[{{1, 3}, {2, -1}}]
local optimizer = optim.LBFGS(seq:parameters(), {lr = 0.8})

for step = 1, opt.steps do
   optimizer:step(function()
      optimizer:zero_grad()
      local loss = criterion(seq(input), target)
      loss:backward()
      return loss
   end)
   local _ <close> = torch.no_grad()
   local pred = seq(test_input, opt.future)
   local loss = criterion(pred[{{}, {1, length - 1}}], test_target)
   print(("step %d  test loss %.5f, goes on with %d numbers"):format(
      step, loss:item(), pred:size(2) - length + 1))
end
