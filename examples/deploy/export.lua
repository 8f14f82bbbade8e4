-- Trains a small convolutional network on real handwritten digits and exports it as a program,
-- which run.c runs without Lua. On request, also exports a program of 8-bit integers, and an ONNX
-- file:
--
--    tlua examples/deploy/export.lua --save digits.tlp --int8 digits_int8.tlp --onnx digits.onnx
local torch = require "tlua"
local nn, optim = torch.nn, torch.optim

local here = arg[0]:match "^(.*)/" or "."

local parser = torch.utils.options("export.lua", "Trains a network and exports it as a program.")
parser:option("--epochs", "passes over the training data", 10)
parser:option("--data", "lines of 64 pixels and the digit", here .. "/../data/digits.csv")
parser:option("--save", "where the program goes", "digits.tlp")
parser:option("--int8", "where the program of 8-bit integers goes", "")
parser:option("--onnx", "where the ONNX file goes", "")
local opt = parser:parse()

torch.manual_seed(1)

local rows = torch.data.CSV(opt.data, {header = false}):tensor()
local images = rows:narrow(2, 1, 64):float():div(16):view(-1, 1, 8, 8)
local classes = rows:select(2, 65) + 1

local model = nn.Sequential(
   nn.Conv2d(1, 16, 3, {padding = 1}), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
   nn.Conv2d(16, 32, 3, {padding = 1}), nn.ReLU(), nn.MaxPool2d(2),
   nn.Flatten(), nn.Dropout(0.2), nn.Linear(128, 10)
)
local optimizer = optim.Adam(model:parameters(), {lr = 3e-3})
local held_out = 360 -- digits that are not used for training
local known = #images - held_out
local digits = torch.data.TensorDataset(images:narrow(1, 1, known), classes:narrow(1, 1, known))
local loader = torch.data.DataLoader(digits, {batch_size = 64, shuffle = true})
for _ = 1, opt.epochs do
   for image, class in loader:iter() do
      optimizer:zero_grad()
      nn.functional.cross_entropy(model(image), class):backward()
      optimizer:step()
   end
end

model:eval()
local function export()
   return torch.export(model, {images[{{1, 4}}]}, {
      dynamic = {input = {[1] = {name = "batch", max = 2048}}},
   })
end
local program = export()
program:save(opt.save)
print(program)

-- Returns how many of the held-out digits a program recognises. runs(images) runs the program.
local function right_of(runs)
   local scores = runs(images:narrow(1, known + 1, held_out))
   return scores:argmax(2):eq(classes:narrow(1, known + 1, held_out)):sum():item()
end
print(("%d of %d new digits read right"):format(right_of(program), held_out))

if opt.int8 ~= "" then
   local quantized = torch.ao.quantization.quantize_(export(), {
      kind = "static", calibration = {images:narrow(1, 1, 256)},
   })
   quantized:save(opt.int8)
   print(("%d of %d new digits read right with 8-bit integers"):format(right_of(quantized),
      held_out))
end
if opt.onnx ~= "" then
   torch.onnx.export(model, {images[{{1, 4}}]}, opt.onnx, {
      input_names = {"input"}, output_names = {"output"}, dynamic_axes = {input = {[1] = "batch"}},
   })
end

local scores = program(images)
local expected = torch.no_grad(function() return model(images) end)
assert(scores:equal(expected), "the program reads the digits in another way than the model")
print(("%d of %d digits read right"):format(scores:argmax(2):eq(classes):sum():item(), #images))
