-- Measures what a trainer costs over a hand-written loop, on the MLP of examples/digits.lua:
--
--    tlua rocks/trainer/spec/bench.lua
--
-- Each loop in turn trains 12 epochs with batches of 64 and Adam; it prints the medians of the
-- processor times of an epoch, and of the ratios to the first loop. A Learner logs the loss, so the
-- loop above it keeps the loss, too; its ratio is that to this loop. Processor times depend on what
-- else the machine does, counts of instructions do not:
--
--    valgrind --tool=callgrind --callgrind-out-file=/dev/null tlua rocks/trainer/spec/bench.lua loop 3 12
--
-- runs only the third loop, for 12 epochs; valgrind prints the instructions as "Collected". The
-- difference of two runs with different numbers of epochs leaves out the start of the program.

local torch = require "tlua"
local nn, trainer = torch.nn, torch.trainer

local only <const> = arg[1] == "loop" and tonumber(arg[2])
local ROUNDS <const>, EPOCHS <const> = tonumber(arg[1]) or 40, only and tonumber(arg[3]) or 12

torch.set_num_threads(1)
local path = (arg[0]:match "^(.*)/" or ".") .. "/../../../examples/data/digits.csv"
local rows = torch.data.CSV(path, {header = false}):tensor()
local set = torch.data.TensorDataset(rows:narrow(2, 1, 64):float() / 16, rows:select(2, 65) + 1)
local loader = torch.data.DataLoader(set, {batch_size = 64})

local function model()
   torch.manual_seed(1)
   return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
end

local function by_hand(keeps)
   local net, loss_of = model(), nn.CrossEntropyLoss()
   local optimizer = torch.optim.Adam(net:parameters(), {lr = 3e-3})
   local kept
   return function()
      for _ = 1, EPOCHS do
         for input, target in loader:iter() do
            optimizer:zero_grad()
            local loss = loss_of(net(input), target)
            if keeps then kept = loss:detach() end
            loss:backward()
            optimizer:step()
         end
      end
      return net, kept
   end
end

local function fit(module)
   local run = trainer.Trainer {max_epochs = EPOCHS, logger = false, enable_checkpointing = false,
      enable_progress_bar = false, enable_model_summary = false}
   return function()
      run:fit(module, loader)
      return module.model
   end
end

local Plain = torch.class("Plain", trainer.Module)

function Plain:__init() self.model, self.loss = model(), nn.CrossEntropyLoss() end

function Plain:training_step(batch) return self.loss(self.model(batch[1]), batch[2]) end

function Plain:configure_optimizers()
   return torch.optim.Adam(self:parameters(), {lr = 3e-3})
end

local kinds <const> = {
   {"hand-written loop", by_hand},
   {"trainer.Module", function() return fit(Plain()) end, 1},
   {"a loop that keeps the loss", function() return by_hand(true) end},
   {"trainer.Learner", function()
      return fit(trainer.Learner(model(), nn.CrossEntropyLoss(), {lr = 3e-3}))
   end, 3},
}

if only then
   kinds[only][2]()()
   return
end

local times, weights = {{}, {}, {}, {}}, {}
for round = 1, ROUNDS + 2 do
   for i, kind in ipairs(kinds) do
      local run = kind[2]()
      collectgarbage()
      local begun = os.clock()
      local net = run()
      local seconds = os.clock() - begun
      if round > 2 then table.insert(times[i], seconds) end
      weights[i] = net[1].weight
   end
end
for i = 2, #kinds do assert(weights[i]:equal(weights[1]), "the weights differ") end

local function median(list)
   table.sort(list)
   return list[#list // 2 + 1]
end

for i, kind in ipairs(kinds) do
   local ratios = {}
   for round = 1, kind[3] and ROUNDS or 0 do
      ratios[round] = (times[i][round] / times[kind[3]][round] - 1) * 100
   end
   kind.ratio = kind[3] and ("   %+.1f %%"):format(median(ratios)) or ""
end
for i, kind in ipairs(kinds) do
   print(("%-28s %.3f ms an epoch%s"):format(kind[1], median(times[i]) / EPOCHS * 1e3, kind.ratio))
end
