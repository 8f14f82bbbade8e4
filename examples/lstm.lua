-- An LSTM learns whether the sum of a sequence's marked numbers is above zero. The sequences of a
-- batch have different lengths, and are packed so that no step is spent on padding:
--
--    tlua examples/lstm.lua
local torch = require "tlua"
local nn, optim = torch.nn, torch.optim
local rnn = nn.utils.rnn

local parser = torch.utils.options("lstm.lua", "Learns to add up marked numbers.")
parser:option("--steps", "steps of training", 400)
parser:option("--batch", "sequences in a batch", 64)
parser:option("--longest", "the longest sequence", 24)
parser:option("--hidden", "units of the LSTM", 48)
parser:option("--lr", "learning rate of Adam", 5e-3)
parser:option("--seed", "what the random numbers start from", 1)
local opt = parser:parse()

torch.manual_seed(opt.seed)

-- Returns a sequence and its class. Each step has a number and a mark, 0 or 1; the class is 2 if
-- the sum of the marked numbers is above zero, otherwise 1.
local function sample()
   local length = torch.randint(3, opt.longest + 1, {1}):item()
   local numbers, marks = torch.randn(length), torch.rand(length):lt(0.4):float()
   local class = (numbers * marks):sum():item() > 0 and 2 or 1
   return torch.stack({numbers, marks}, 2), class, length
end

local function batch(n)
   local sequences, classes, lengths = {}, {}, {}
   for i = 1, n do sequences[i], classes[i], lengths[i] = sample() end
   return rnn.pad_sequence(sequences, {batch_first = true}), torch.tensor(classes),
      torch.tensor(lengths)
end

-- Model: the LSTM's state at each sequence's own end goes to a linear layer ----------------------

local Reader = torch.class("Reader", nn.Module)

function Reader:__init(hidden)
   nn.Module.__init(self)
   self.lstm = nn.LSTM(2, hidden, {batch_first = true})
   self.head = nn.Linear(hidden, 2)
end

function Reader:forward(padded, lengths)
   local packed = rnn.pack_padded_sequence(padded, lengths,
      {batch_first = true, enforce_sorted = false})
   local _, state = self.lstm(packed)
   local hidden = table.unpack(state)
   return self.head(hidden[-1])
end

local model = Reader(opt.hidden)
print(model)

-- Training ---------------------------------------------------------------------------------------

local optimizer = optim.Adam(model:parameters(), {lr = opt.lr})
local schedule = optim.lr_scheduler.OneCycleLR(optimizer, opt.lr, opt.steps + 1)
local bar = torch.utils.Progress {total = opt.steps, label = "training"}
local losses = {}
for step = 1, opt.steps do
   local padded, class, lengths = batch(opt.batch)
   optimizer:zero_grad()
   local loss = nn.functional.cross_entropy(model(padded, lengths), class)
   loss:backward()
   nn.utils.clip_grad_norm_(model:parameters(), 1)
   optimizer:step()
   schedule:step()
   losses[step] = loss:item()
   bar:step(1, ("loss %.4f"):format(losses[step]))
end
bar:finish()
print(torch.utils.plot.curves(losses, {title = "loss", lines = 8}))

-- Testing ----------------------------------------------------------------------------------------

model:evaluate()
local padded, class, lengths = batch(1000)
local guess = torch.no_grad(function() return model(padded, lengths):argmax(2) end)
local right = guess:eq(class)
print(("test accuracy: %.3f"):format(right:float():mean():item()))
for _, range in ipairs {{3, 8}, {9, 16}, {17, opt.longest}} do
   local here = lengths:ge(range[1]) & lengths:le(range[2])
   if here:any():item() then
      print(("  lengths %2d to %2d: %.3f"):format(range[1], range[2],
         right[here]:float():mean():item()))
   end
end
