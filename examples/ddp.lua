-- Trains the network of digits.lua on several processes; each process takes a part of every batch:
--
--    tlua run -n 2 examples/ddp.lua
--    tlua run -n 4 examples/ddp.lua --epochs 20 --device sim
local torch = require "tlua"
local nn, optim, dist = torch.nn, torch.optim, torch.distributed

local here = arg[0]:match "^(.*)/" or "."

local parser = torch.utils.options("ddp.lua", "Trains a network on several processes.")
parser:option("--epochs", "passes over the training data", 12)
parser:option("--batch", "digits in a batch, of all processes together", 64)
parser:option("--lr", "learning rate of Adam at its highest", 5e-3)
parser:option("--seed", "what the random numbers start from", 1)
parser:option("--device", "where to compute: cpu, sim", "cpu")
parser:option("--data", "lines of 64 pixels and the digit", here .. "/data/digits.csv")
local opt = parser:parse()

dist.init_process_group()
local rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(opt.seed)

-- Data -----------------------------------------------------------------------------------------

local function read_digits(path)
   local rows = torch.data.CSV(path, {header = false}):tensor()
   local images = rows:narrow(2, 1, 64):float():div(16):view(-1, 1, 8, 8)
   return images:to(opt.device), (rows:select(2, 65) + 1):to(opt.device)
end

local images, classes = read_digits(opt.data)
local digits = torch.data.TensorDataset(images, classes)
local train_count = #digits * 4 // 5
local train, test = torch.data.random_split(digits, {train_count, #digits - train_count})

-- Returns the batches. All ranks draw the same order, and each rank takes its part of each batch.
local function batches()
   local order, at = torch.randperm(#train):to(opt.device), 1
   return function()
      local n = math.min(opt.batch, #train - at + 1) // size
      if n <= 0 then return nil end
      local mine = order:narrow(1, at + rank * n, n)
      at = at + opt.batch
      return train:get_items(mine)
   end
end

-- Model ----------------------------------------------------------------------------------------

local model = nn.parallel.DistributedDataParallel(nn.Sequential(
   nn.Conv2d(1, 32, 3, {padding = 1}),
   nn.ReLU(),
   nn.Conv2d(32, 64, 3, {padding = 1}),
   nn.ReLU(),
   nn.MaxPool2d(2),
   nn.Flatten(),
   nn.Linear(64 * 4 * 4, 128),
   nn.ReLU(),
   nn.Linear(128, 10)
):to(opt.device))
local criterion = nn.CrossEntropyLoss {label_smoothing = 0.1}
local optimizer = optim.Adam(model:parameters(), {lr = opt.lr})
local steps = opt.epochs * -(-#train // opt.batch) + 1
local schedule = optim.lr_scheduler.OneCycleLR(optimizer, opt.lr, steps)

local started = torch.io.clock()
for epoch = 1, opt.epochs do
   local sum, n = torch.zeros(1), 0
   for image, class in batches() do
      optimizer:zero_grad()
      local loss = criterion(model(image), class)
      loss:backward()
      optimizer:step()
      schedule:step()
      sum, n = sum + loss:detach():cpu(), n + 1
   end
   dist.all_reduce(sum, "avg")
   if rank == 0 then
      print(("epoch %2d/%d  loss %.4f"):format(epoch, opt.epochs, sum:item() / n))
   end
end

-- each rank tests its part of the digits
model:evaluate()
local from, to = #test * rank // size + 1, #test * (rank + 1) // size
images, classes = test:get_items(torch.arange(from, to + 1):to(opt.device))
local right = torch.no_grad(function() return model(images):argmax(2):eq(classes):sum() end)
dist.all_reduce(right)
if rank == 0 then
   print(("%d processes: training took %.2f s, test accuracy: %.4f (%d/%d)"):format(
      size, torch.io.clock() - started, right:item() / #test, right:item(), #test))
end
dist.destroy_process_group()
