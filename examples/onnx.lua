-- Trains a network on handwritten digits, writes it as an ONNX file for other runtimes, reads the
-- file back, compares both networks, and goes on training the network that was read:
--
--    tlua examples/onnx.lua
--    tlua examples/onnx.lua --epochs 20 --save /tmp/digits.onnx
--
-- onnxruntime.InferenceSession "/tmp/digits.onnx" then runs the model in Python.
local torch = require "tlua"
local nn, optim = torch.nn, torch.optim
local F = nn.functional

local here = arg[0]:match "^(.*)/" or "."

local parser = torch.utils.options("onnx.lua", "Takes a model to ONNX and back.")
parser:option("--epochs", "passes over the digits", 10)
parser:option("--batch", "digits in a batch", 64)
parser:option("--lr", "learning rate of Adam", 3e-3)
parser:option("--opset", "version of ONNX's operators, 17 to 23", 18)
parser:option("--seed", "what the random numbers start from", 1)
parser:option("--data", "lines of 64 pixels and the digit", here .. "/data/digits.csv")
parser:option("--save", "the model file", "digits.onnx")
local opt = parser:parse()

torch.manual_seed(opt.seed)

-- The data are images (N, 1, 8, 8), and classes from 1 to 10.
local rows = torch.data.CSV(opt.data, {header = false}):tensor()
local images = rows:narrow(2, 1, 64):float():view(-1, 1, 8, 8) / 16
local classes = rows:select(2, 65):long() + 1
local held_out = 360
local n = images:size(1) - held_out
local loader = torch.data.DataLoader(
   torch.data.TensorDataset(images:narrow(1, 1, n), classes:narrow(1, 1, n)),
   {batch_size = opt.batch, shuffle = true})
local test_images = images:narrow(1, n + 1, held_out)
local test_classes = classes:narrow(1, n + 1, held_out)

local function train(model, epochs)
   local optimizer = optim.Adam(model:parameters(), {lr = opt.lr})
   model:train()
   for _ = 1, epochs do
      for x, y in loader:iter() do
         optimizer:zero_grad()
         F.cross_entropy(model(x), y):backward()
         optimizer:step()
      end
   end
   model:eval()
end

local function accuracy(model)
   local _ <close> = torch.no_grad()
   return model(test_images):argmax(2):eq(test_classes):float():mean():item()
end

local model = nn.Sequential(
   nn.Conv2d(1, 16, 3, {padding = 1}), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
   nn.Conv2d(16, 32, 3, {padding = 1}), nn.ReLU(), nn.MaxPool2d(2),
   nn.Flatten(), nn.Linear(128, 10))
train(model, opt.epochs)
print(("trained: accuracy %.3f"):format(accuracy(model)))

-- The exported model accepts any number of images, not only the two of the example. Its scores are
-- not normalized.
torch.onnx.export(model, {test_images:narrow(1, 1, 2)}, opt.save, {
   input_names = {"image"}, output_names = {"scores"}, dynamic_axes = {image = {[1] = "batch"}},
   opset_version = opt.opset,
})

local loaded = torch.onnx.load(opt.save)
print(loaded)
local difference
do
   local _ <close> = torch.no_grad()
   difference = (loaded(test_images) - model(test_images)):abs():max():item()
end
print(("loaded: accuracy %.3f, largest difference %.1e"):format(accuracy(loaded), difference))

train(loaded, 1)
print(("trained further: accuracy %.3f"):format(accuracy(loaded)))
