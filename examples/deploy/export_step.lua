-- Exports two programs for train.c, which runs them without Lua: a training step of a small
-- convolutional network, and the network itself, which recognises digits with the trained
-- parameters:
--
--    tlua examples/deploy/export_step.lua --save digits_step.tlp --infer digits.tlp
local torch = require "tlua"
local nn, optim = torch.nn, torch.optim

local parser = torch.utils.options("export_step.lua", "Exports a training step of a network.")
parser:option("--batch", "images in a batch", 32)
parser:option("--steps", "steps of the schedule", 500)
parser:option("--save", "where the training step goes", "digits_step.tlp")
parser:option("--infer", "where the network goes", "digits.tlp")
local opt = parser:parse()

torch.manual_seed(1)

local model = nn.Sequential(
   nn.Conv2d(1, 16, 3, {padding = 1}), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
   nn.Conv2d(16, 32, 3, {padding = 1}), nn.ReLU(), nn.MaxPool2d(2),
   nn.Flatten(), nn.Dropout(0.2), nn.Linear(128, 10)
)
local optimizer = optim.AdamW(model:parameters(), {lr = 3e-3})
local scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, {T_max = opt.steps})

local function step(image, class)
   optimizer:zero_grad()
   local loss = nn.functional.cross_entropy(model(image), class)
   loss:backward()
   optimizer:step()
   scheduler:step()
   return loss:detach()
end

local image, class = torch.rand(opt.batch, 1, 8, 8), torch.randint(1, 11, {opt.batch})
local program = torch.export_step(step, {image, class}, {
   model = model, optimizer = optimizer, scheduler = scheduler, steps = opt.steps,
})
program:save(opt.save)
print(program)

model:eval()
torch.export(model, {image}, {dynamic = {input = {[1] = {name = "batch", max = 2048}}}})
   :save(opt.infer)
