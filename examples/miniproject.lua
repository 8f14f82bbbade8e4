-- miniproject.lua - a typical project at the end of a course: a new architecture, trained both in
-- float32 and with autocast to bfloat16; both trainings are profiled.
--
--    tlua examples/miniproject.lua
--    tlua examples/miniproject.lua --epochs 20 --logs runs   (then: tlua top runs)
--
-- The input is an image of 8 x 8 pixels. Each block first mixes positions within each channel, then
-- channels within each position (Tolstikhin et al., arXiv:2105.01601). A squeeze-and-excitation
-- gate follows (Hu et al., arXiv:1709.01507).
local torch = require "tlua"
local nn, optim = torch.nn, torch.optim
local F = nn.functional

local here = arg[0]:match "^(.*)/" or "."

local parser = torch.utils.options("miniproject.lua", "Full against mixed precision, profiled.")
parser:option("--epochs", "passes over the training data", 10)
parser:option("--batch", "digits in a batch", 64)
parser:option("--width", "channels", 64)
parser:option("--blocks", "mixing blocks", 3)
parser:option("--lr", "learning rate of AdamW at its highest", 5e-3)
parser:option("--seed", "what the random numbers start from", 1)
parser:option("--data", "lines of 64 pixels and the digit", here .. "/data/digits.csv")
parser:option("--logs", "a folder for TensorBoard and `tlua top`", "")
local opt = parser:parse()

-- Data: images (N, 8, 8) from 0 to 1, classes (N) from 1 (the digit 0) to 10 ----------------------

local rows = torch.data.CSV(opt.data, {header = false}):tensor()
torch.manual_seed(opt.seed)
local digits = torch.data.TensorDataset(rows:narrow(2, 1, 64):float():div(16):view(-1, 8, 8),
   rows:select(2, 65) + 1)
local train_count = #digits * 4 // 5
local train, test = torch.data.random_split(digits, {train_count, #digits - train_count})

-- Architecture ------------------------------------------------------------------------------------

local Mixer = torch.class("Mixer", nn.Module)

function Mixer:__init(places, width)
   nn.Module.__init(self)
   self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
   self.across_places = nn.Sequential(nn.Linear(places, 2 * places), nn.GELU(),
      nn.Linear(2 * places, places))
   self.across_channels = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(),
      nn.Linear(2 * width, width))
   self.gate = nn.Sequential(nn.Linear(width, width // 4), nn.ReLU(), nn.Linear(width // 4, width),
      nn.Sigmoid())
end

-- Computes a mixing block for x of shape (N, positions, width).
function Mixer:forward(x)
   local h = self.across_places(self.norm1(x):transpose(2, 3)):transpose(2, 3)
   x = x + h * self.gate(h:mean(2)):unsqueeze(2)
   return x + self.across_channels(self.norm2(x))
end

local Digits = torch.class("Digits", nn.Module)

function Digits:__init(width, blocks)
   nn.Module.__init(self)
   self.embed = nn.Conv2d(1, width, 2, {stride = 2}) -- makes 16 patches of 2 x 2 pixels
   self.mixers = nn.Sequential()
   for _ = 1, blocks do self.mixers:add(Mixer(16, width)) end
   self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)
end

function Digits:forward(image)
   local x = self.embed(image:unsqueeze(2)):flatten(3):transpose(2, 3)
   return self.head(self.norm(self.mixers(x)):mean(2))
end

-- Training ----------------------------------------------------------------------------------------

local cast <const> = {float32 = false, bfloat16 = true}

-- Runs fn with autocast to the given dtype.
local function in_precision(dtype, fn)
   return torch.autocast({device_type = "cpu", dtype = "bfloat16", enabled = cast[dtype]}, fn)
end

local function accuracy(model, dtype)
   model:evaluate()
   local _ <close> = torch.no_grad()
   local right = 0
   for image, class in torch.data.DataLoader(test, {batch_size = 256}):iter() do
      local scores = in_precision(dtype, function() return model(image) end)
      right = right + scores:argmax(2):eq(class):sum():item()
   end
   model:train()
   return right / #test
end

local function step(model, optimizer, dtype, image, class)
   optimizer:zero_grad()
   local loss = in_precision(dtype, function() return F.cross_entropy(model(image), class) end)
   loss:backward()
   optimizer:step()
   return loss
end

-- Trains in one precision; every precision starts from the same weights and sees the same batches.
local function experiment(dtype)
   torch.manual_seed(opt.seed)
   local model = Digits(opt.width, opt.blocks)
   local optimizer = optim.AdamW(model:parameters(), {lr = opt.lr})
   local loader = torch.data.DataLoader(train, {batch_size = opt.batch, shuffle = true})
   local schedule = optim.lr_scheduler.OneCycleLR(optimizer, opt.lr, opt.epochs * #loader + 1)
   local writer = opt.logs ~= "" and
      torch.utils.tensorboard.SummaryWriter(opt.logs .. "/" .. dtype)
   local start, steps, last = torch.io.clock(), 0, nil
   for _ = 1, opt.epochs do
      for image, class in loader:iter() do
         last = step(model, optimizer, dtype, image, class)
         schedule:step()
         steps = steps + 1
         if writer then writer:add_scalar("loss", last:item(), steps) end
      end
      if writer then writer:add_scalar("accuracy", accuracy(model, dtype), steps) end
   end
   local result = {dtype = dtype, loss = last:item(),
      ms = (torch.io.clock() - start) / steps * 1000, accuracy = accuracy(model, dtype)}
   if writer then writer:close() end

   -- Profiles ten further steps, to see where the time goes.
   local profile = torch.profiler.profile({with_modules = true, with_flops = true}, function(prof)
      local left = 10
      for image, class in loader:iter() do
         step(model, optimizer, dtype, image, class)
         prof:step()
         left = left - 1
         if left == 0 then break end
      end
   end)
   print(("== %s: %d parameters ==\n"):format(dtype, nn.utils.parameters_to_vector(
      model:parameters()):numel()))
   print(profile:key_averages():table {sort_by = "self_cpu_time_total", row_limit = 8})
   print(profile:summary())
   return result
end

local results = {experiment "float32", experiment "bfloat16"}

print "precision  loss of the last batch  test accuracy  ms a step"
for _, r in ipairs(results) do
   print(("%-9s  %22.4f  %13.3f  %9.2f"):format(r.dtype, r.loss, r.accuracy, r.ms))
end
