-- Trains a network in a program that can be killed at any time. It continues from its last
-- checkpoint, and its results are bitwise equal to those of an uninterrupted training:
--
--    tlua examples/resume.lua --die-at 130       kills itself in the middle
--    tlua examples/resume.lua                    goes on from step 120
--    tlua examples/resume.lua --fresh            never stops: the same last line
local torch = require "tlua"
local nn, optim = torch.nn, torch.optim

local here = arg[0]:match "^(.*)/" or "."

local parser = torch.utils.options("resume.lua", "A training that survives being killed.")
parser:option("--steps", "steps of training", 200)
parser:option("--every", "steps from one checkpoint to the next", 20)
parser:option("--die-at", "the step at which it kills itself; 0: never", 0)
parser:option("--seed", "what the random numbers start from", 1)
parser:option("--checkpoint", "the file", "resume.safetensors")
parser:option("--data", "lines of 64 pixels and the digit", here .. "/data/digits.csv")
parser:flag("--fresh", "begin anew, whether there is a checkpoint or not")
local opt = parser:parse()

torch.manual_seed(opt.seed)

local rows = torch.data.CSV(opt.data, {header = false}):tensor()
local images, classes = rows:narrow(2, 1, 64):float() / 16, rows:select(2, 65) + 1

local model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 10))
local optimizer = optim.AdamW(model:parameters(), {lr = 1e-2})
local schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, opt.steps)

-- Everything that the next step depends on ------------------------------------------------------

local batch_size = 64
local progress = {step = 0, order = torch.randperm(images:size(1)), place = 0}

local function save()
   -- torch.save writes the new file beside the old one, and replaces the old one when the new one
   -- is complete
   torch.save({
      model = model:state_dict(), optimizer = optimizer:state_dict(),
      schedule = schedule:state_dict(), random = torch.get_rng_state(), progress = progress,
   }, opt.checkpoint)
end

local function load()
   local checkpoint = torch.load(opt.checkpoint)
   model:load_state_dict(checkpoint.model)
   optimizer:load_state_dict(checkpoint.optimizer)
   schedule:load_state_dict(checkpoint.schedule)
   torch.set_rng_state(checkpoint.random)
   progress = checkpoint.progress
   print("going on from step " .. progress.step)
end

local function exists(path)
   local found = io.open(path)
   if found then found:close() end
   return found ~= nil
end

if not opt.fresh and exists(opt.checkpoint) then load() end

-- Training --------------------------------------------------------------------------------------

-- Returns the next batch. The digits are shuffled again after each epoch.
local function next_batch()
   if progress.place + batch_size > images:size(1) then
      progress.order, progress.place = torch.randperm(images:size(1)), 0
   end
   local index = progress.order:narrow(1, progress.place + 1, batch_size)
   progress.place = progress.place + batch_size
   return images:index_select(1, index), classes:index_select(1, index)
end

while progress.step < opt.steps do
   local image, class = next_batch()
   optimizer:zero_grad()
   local loss = nn.functional.cross_entropy(model(image), class)
   loss:backward()
   optimizer:step()
   schedule:step()
   progress.step = progress.step + 1
   if progress.step == opt.die_at then
      print("step " .. progress.step .. ": killed")
      io.stdout:flush()
      os.execute "kill -9 $PPID"
   end
   if progress.step % opt.every == 0 then
      save()
      print(("step %3d  loss %.4f"):format(progress.step, loss:item()))
   end
end

-- this line's output changes if any bit of the weights changes
local sum = 0
for _, parameter in ipairs(model:parameters()) do
   for i, value in ipairs(parameter:detach():view(-1):tolist()) do
      sum = (sum * 31 + string.unpack("<i4", string.pack("<f", value)) + i) & 0xFFFFFFFFFFFF
   end
end
model:evaluate()
local right = torch.no_grad(function() return model(images):argmax(2):eq(classes):sum():item() end)
print(("step %d: %d of %d digits right, weights %012x"):format(
   progress.step, right, images:size(1), sum))
