-- transfer.lua - trains a ResNet on the digits 0 to 4, freezes all its layers before the last
-- stage, and trains the other layers on 40 examples of the digits 5 to 9. Prints the accuracy, and
-- for comparison the accuracy of a network that was trained only on these examples.
--
--    tlua rocks/vision/examples/transfer.lua [epochs] [digits.csv]
--
-- Each line of the file has the 64 pixels of an image of 8 x 8, from 0 to 16, and then the digit.
-- The default file is examples/data/digits.csv.

local torch = require "tlua"

local nn, optim = torch.nn, torch.optim
local F = nn.functional

local epochs, path = tonumber(arg[1]) or 2, arg[2] or "examples/data/digits.csv"

torch.manual_seed(1)

-- Data --------------------------------------------------------------------------------------------

-- Returns images (n, 3, 32, 32) of the five digits from `first` on, and their classes from 1 to 5.
local function digits_from(first)
   local rows = torch.data.CSV(path, {header = false}):tensor()
   local digits = rows:select(2, 65)
   local chosen = digits:ge(first):logical_and(digits:lt(first + 5)):nonzero():squeeze(2)
   rows = rows:index_select(1, chosen)
   local images = rows:narrow(2, 1, 64):float():view(-1, 1, 8, 8) / 8 - 1
   images = F.interpolate(images, {size = {32, 32}, mode = "bilinear"})
   return images:expand(-1, 3, -1, -1):contiguous(), rows:select(2, 65):long() - first + 1
end

-- Training ----------------------------------------------------------------------------------------

-- Trains the parameters that have not been frozen.
local function train(model, images, classes, times, rate)
   local optimizer = optim.AdamW(model:parameters(), {lr = rate})
   for _ = 1, times do
      local order = torch.randperm(images:size(1))
      for _, chosen in ipairs(order:split(32)) do
         local scores = model(images:index_select(1, chosen))
         local loss = F.cross_entropy(scores, classes:index_select(1, chosen))
         optimizer:zero_grad()
         loss:backward()
         optimizer:step()
      end
   end
end

local function accuracy(model, images, classes)
   model:eval()
   local hits = torch.no_grad(function()
      return model(images):argmax(2):eq(classes):float():mean():item()
   end)
   model:train()
   return hits
end

local shots <const> = 40

-- Trains a model on the first images, at most `shots` of them. Returns the accuracy on the other
-- images.
local function learn(model, images, classes)
   local count = math.min(shots, images:size(1) // 2)
   train(model, images:narrow(1, 1, count), classes:narrow(1, 1, count), 5 * epochs, 1e-3)
   local rest = images:size(1) - count
   return accuracy(model, images:narrow(1, count + 1, rest), classes:narrow(1, count + 1, rest))
end

-- Freezes all of a model except its last stage, and replaces its last layer. In the frozen part,
-- batch normalisation keeps its statistics as well.
local function freeze(model)
   model:requires_grad_(false):eval()
   model.layer4:requires_grad_(true):train()
   model.fc = nn.Linear(model.fc.in_features, 5)
end

local images, classes = digits_from(0)
local model = torch.vision.models.resnet18 {num_classes = 5}
train(model, images, classes, epochs, 1e-3)
local some = math.min(200, images:size(1))
print(("digits 0 to 4: accuracy %.3f on training data"):format(
   accuracy(model, images:narrow(1, 1, some), classes:narrow(1, 1, some))))

local others, their_classes = digits_from(5)
freeze(model)
print(("digits 5 to 9 from %d examples: accuracy %.3f with the frozen body, %.3f without"):format(
   shots, learn(model, others, their_classes),
   learn(torch.vision.models.resnet18 {num_classes = 5}, others, their_classes)))
