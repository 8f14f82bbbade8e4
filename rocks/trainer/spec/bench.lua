-- Measures how much slower a trainer is than a hand-written loop, on the MLP of examples/digits.lua:
--
--    tlua rocks/trainer/spec/bench.lua
--
-- Each loop in turn trains 12 epochs with batches of 64 and Adam. For each loop it prints the lower quartile of the
-- processor times of an epoch, its ratio to that of the hand-written loop, and the median of the time before the first
-- epoch. A Learner logs the loss. So its ratio is taken to a hand-written loop that also keeps the loss. Processor
-- times depend on the load of the machine. Counts of instructions do not:
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

-- Each of the following functions returns a function that trains and returns the model. During the training, the
-- processor time at the beginning of each epoch and at the end of the last one is appended to `marks`.
local function by_hand(keeps)
   local net, loss_of = model(), nn.CrossEntropyLoss()
   local kept
   return function(marks)
      local optimizer = torch.optim.Adam(net:parameters(), {lr = 3e-3})
      for _ = 1, EPOCHS do
         marks[#marks + 1] = os.clock()
         for input, target in loader:iter() do
            optimizer:zero_grad()
            local loss = loss_of(net(input), target)
            if keeps then kept = loss:detach() end
            loss:backward()
            optimizer:step()
         end
      end
      marks[#marks + 1] = os.clock()
      return net, kept
   end
end

local function fit(module)
   return function(marks)
      local function mark() marks[#marks + 1] = os.clock() end
      local run = trainer.Trainer {max_epochs = EPOCHS, logger = false,
         enable_checkpointing = false, enable_progress_bar = false, enable_model_summary = false,
         callbacks = {{on_train_epoch_start = mark, on_train_end = mark}}}
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
   kinds[only][2]()({})
   return
end

local epochs, begins, weights = {{}, {}, {}, {}}, {{}, {}, {}, {}}, {}
for round = 1, ROUNDS + 2 do
   for i, kind in ipairs(kinds) do
      local run, marks = kind[2](), {}
      collectgarbage()
      local begun = os.clock()
      local net = run(marks)
      if round > 2 then
         table.insert(begins[i], marks[1] - begun)
         for epoch = 1, EPOCHS do table.insert(epochs[i], marks[epoch + 1] - marks[epoch]) end
      end
      weights[i] = net[1].weight
   end
end
for i = 2, #kinds do assert(weights[i]:equal(weights[1]), "the weights differ") end

local function quantile(list, share)
   table.sort(list)
   return list[math.ceil(#list * share)] * 1e3
end

for i, kind in ipairs(kinds) do
   kind.epoch = quantile(epochs[i], 0.25)
   local other = kind[3] and kinds[kind[3]].epoch
   local ratio = other and ("   %+.1f %%"):format((kind.epoch / other - 1) * 100) or ""
   print(("%-28s %.3f ms to begin, %.3f ms an epoch%s"):format(kind[1], quantile(begins[i], 0.5),
      kind.epoch, ratio))
end
