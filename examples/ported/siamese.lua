-- A siamese network learns whether two digits are the same, even for classes that it has never
-- seen:
--
--    tlua examples/ported/siamese.lua
local torch = require "tlua"
local nn, optim = torch.nn, torch.optim
local F = nn.functional

local here = arg[0]:match "^(.*)/" or "."

local parser = torch.utils.options("siamese.lua", "Tells whether two digits are the same.")
parser:option("--steps", "training steps", 200)
parser:option("--batch", "pairs in a batch", 64)
parser:option("--seed", "seed of the random numbers", 1)
local opt = parser:parse()

torch.manual_seed(opt.seed)

local rows = torch.data.CSV(here .. "/../data/digits.csv", {header = false}):tensor()
local images, classes = rows:narrow(2, 1, 64):float():div(16):view(-1, 1, 8, 8), rows:select(2, 65)

-- Draws pairs of digits whose classes are in the given list. In half of the pairs, both digits have
-- the same class.
local Pairs = torch.class "Pairs"

function Pairs:__init(wanted)
   self.groups = {}
   for i, class in ipairs(wanted) do self.groups[i] = torch.nonzero(classes:eq(class)):flatten() end
end

function Pairs:batch(n)
   local a, b, same = {}, {}, {}
   local function draw(group) return group[torch.randint(1, #group + 1, {1}):item()]:item() end
   for i = 1, n do
      local first = torch.randint(1, #self.groups + 1, {1}):item()
      local second = first
      if i % 2 == 0 then
         second = (first + torch.randint(0, #self.groups - 1, {1}):item()) % #self.groups + 1
      end
      a[i], b[i] = draw(self.groups[first]), draw(self.groups[second])
      same[i] = first == second and 1.0 or 0.0
   end
   return images[torch.tensor(a)], images[torch.tensor(b)], torch.tensor(same)
end

local Siamese, parent = torch.class("Siamese", nn.Module)

function Siamese:__init()
   parent.__init(self)
   self.features = nn.Sequential(nn.Conv2d(1, 16, 3, {padding = 1}), nn.ReLU(), nn.MaxPool2d(2),
      nn.Conv2d(16, 32, 3, {padding = 1}), nn.ReLU(), nn.Flatten())
   self.fc = nn.Sequential(nn.Linear(2 * 32 * 16, 64), nn.ReLU(), nn.Linear(64, 1))
end

function Siamese:forward(input1, input2)
   local a, b = self.features(input1), self.features(input2)
   return self.fc(torch.cat({(a - b):abs(), a * b}, 2)):squeeze(2)
end

local train, test = Pairs {0, 1, 2, 3, 4, 5, 6}, Pairs {7, 8, 9}
local model = Siamese()
local optimizer = optim.Adadelta(model:parameters(), {lr = 1.0})
local scheduler = optim.lr_scheduler.StepLR(optimizer, {step_size = 50, gamma = 0.7})

for step = 1, opt.steps do
   local a, b, same = train:batch(opt.batch)
   optimizer:zero_grad()
   local loss = F.binary_cross_entropy_with_logits(model(a, b), same)
   loss:backward()
   optimizer:step()
   scheduler:step()
   if step % 50 == 0 then print(("step %3d  loss %.4f"):format(step, loss:item())) end
end

model:eval()
local _ <close> = torch.no_grad()
local function accuracy(data)
   local a, b, same = data:batch(400)
   return model(a, b):gt(0):eq(same:bool()):float():mean():item()
end
print(("pairs told apart: %.3f of known digits, %.3f of digits never seen"):format(
   accuracy(train), accuracy(test)))
