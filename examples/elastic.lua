-- Trains on several processes, any of which may be killed at any time: `tlua run` ends the other
-- processes and restarts all of them. They continue from the last checkpoint, and their results are
-- bitwise equal to those of an uninterrupted training:
--
--    tlua run -n 2 --max-restarts 3 examples/elastic.lua --die-at 50
--    tlua run -n 2 examples/elastic.lua --fresh       never stops: the same last line
--
-- A different number of processes may continue from the same checkpoint. The results then differ
-- only by rounding, since the mean over all ranks is the mean over the same batch.
local torch = require "tlua"
local nn, optim, dist = torch.nn, torch.optim, torch.distributed

local here = arg[0]:match "^(.*)/" or "."

local parser = torch.utils.options("elastic.lua", "A training on processes that may be killed.")
parser:option("--steps", "steps of training", 150)
parser:option("--every", "steps from one checkpoint to the next", 10)
parser:option("--batch", "digits in a batch, of all processes together", 64)
parser:option("--die-at", "the step at which the last rank kills itself, once; 0: never", 0)
parser:option("--checkpoint", "the file", "elastic.safetensors")
parser:option("--data", "lines of 64 pixels and the digit", here .. "/data/digits.csv")
parser:flag("--fresh", "begin anew, whether there is a checkpoint or not")
local opt = parser:parse()

dist.init_process_group()
local rank, size = dist.get_rank(), dist.get_world_size()
local restarts = tonumber(os.getenv "TLUA_RESTART_COUNT" or 0)
torch.manual_seed(1)

local rows = torch.data.CSV(opt.data, {header = false}):tensor()
local images, classes = rows:narrow(2, 1, 64):float() / 16, rows:select(2, 65) + 1

local net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
local optimizer = optim.AdamW(net:parameters(), {lr = 1e-2})
local step = 0

-- Checkpoints -----------------------------------------------------------------------------------

-- Saves a checkpoint. The new file is written beside the old one and replaces it only when
-- complete, so the old file survives if the rank is killed meanwhile.
local function save()
   if rank ~= 0 then return end
   torch.save({model = net:state_dict(), optimizer = optimizer:state_dict(), step = step},
      opt.checkpoint)
end

-- Loads the checkpoint if rank 0 finds one. The other ranks do not look for it themselves, so that
-- all ranks begin at the same step.
local function load()
   local found = {false}
   if rank == 0 and (not opt.fresh or restarts > 0) then
      local checkpoint = io.open(opt.checkpoint)
      if checkpoint then checkpoint:close() end
      found[1] = checkpoint ~= nil
   end
   dist.broadcast_object_list(found)
   if not found[1] then return end
   local checkpoint = torch.load(opt.checkpoint)
   net:load_state_dict(checkpoint.model)
   optimizer:load_state_dict(checkpoint.optimizer)
   step = checkpoint.step
   if rank == 0 then print("going on from step " .. step) end
end

load()

-- Training --------------------------------------------------------------------------------------

local model = nn.parallel.DistributedDataParallel(net)

-- Returns a step's batch, whose rows depend only on the step's number, so that a checkpoint needs
-- no other state.
local function batch()
   torch.manual_seed(step)
   local index = torch.randint(1, images:size(1) + 1, {opt.batch})
   local mine = index:narrow(1, rank * (opt.batch // size) + 1, opt.batch // size)
   return images:index_select(1, mine), classes:index_select(1, mine)
end

while step < opt.steps do
   local image, class = batch()
   optimizer:zero_grad()
   nn.functional.cross_entropy(model(image), class):backward()
   optimizer:step()
   step = step + 1
   if step == opt.die_at and rank == size - 1 and restarts == 0 then
      os.execute "kill -9 $PPID"
   end
   if step % opt.every == 0 then save() end
end

-- Prints one line that depends on every bit of the weights.
local sum = 0
for _, parameter in ipairs(net:parameters()) do
   for i, value in ipairs(parameter:detach():view(-1):tolist()) do
      sum = (sum * 31 + string.unpack("<i4", string.pack("<f", value)) + i) & 0xFFFFFFFFFFFF
   end
end
local right = torch.no_grad(function() return net(images):argmax(2):eq(classes):sum():item() end)
if rank == 0 then
   print(("step %d: %d of %d digits right, weights %012x"):format(step, right, images:size(1), sum))
end
dist.barrier()
dist.destroy_process_group()
