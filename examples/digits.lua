-- Trains a convolutional network on 1,797 real handwritten digits (data/digits.csv) within seconds:
--
--    tlua examples/digits.lua
--    tlua examples/digits.lua --epochs 20 --seed 3 --save /tmp/digits.safetensors
--    tlua examples/digits.lua --device cuda
local torch = require "tlua"
local nn, optim = torch.nn, torch.optim

local here = arg[0]:match "^(.*)/" or "."

local parser = torch.utils.options("digits.lua", "Trains a network to read handwritten digits.")
parser:option("--epochs", "passes over the training data", 12)
parser:option("--batch", "digits in a batch", 64)
parser:option("--lr", "learning rate of Adam at its highest", 5e-3)
parser:option("--seed", "what the random numbers start from", 1)
parser:option("--threads", "threads to compute with (0: as many as there are cores)", 0)
parser:option("--device", "where to compute: cpu, cuda, cuda:1, sim", "cpu")
parser:option("--data", "lines of 64 pixels and the digit", here .. "/data/digits.csv")
parser:option("--save", "where the weights go", "digits.safetensors")
local opt = parser:parse()

if opt.threads > 0 then torch.set_num_threads(opt.threads) end
torch.manual_seed(opt.seed)

-- Data -----------------------------------------------------------------------------------------

-- Reads all digits of a file. Returns images (N, 1, 8, 8) with values from 0 to 1, and classes (N).
-- The class of a digit is the digit plus 1.
local function read_digits(path)
   local rows = torch.data.CSV(path, {header = false}):tensor()
   assert(rows:size(2) == 65, path .. ": expected lines of 65 numbers")
   local images = rows:narrow(2, 1, 64):float():div(16):view(-1, 1, 8, 8)
   return images, rows:select(2, 65) + 1
end

local images, classes = read_digits(opt.data)
local digits = torch.data.TensorDataset(images:to(opt.device), classes:to(opt.device))
local train_count = #digits * 4 // 5
local train, test = torch.data.random_split(digits, {train_count, #digits - train_count})
local loader = torch.data.DataLoader(train, {batch_size = opt.batch, shuffle = true})

-- Model ----------------------------------------------------------------------------------------

local function build()
   return nn.Sequential(
      nn.Conv2d(1, 32, 3, {padding = 1}),
      nn.ReLU(),
      nn.Conv2d(32, 64, 3, {padding = 1}),
      nn.ReLU(),
      nn.MaxPool2d(2),
      nn.Dropout(0.5),
      nn.Flatten(),
      nn.Linear(64 * 4 * 4, 128),
      nn.ReLU(),
      nn.Linear(128, 10)
   )
end

local model = build():to(opt.device)
local criterion = nn.CrossEntropyLoss {label_smoothing = 0.1}
local optimizer = optim.Adam(model:parameters(), {lr = opt.lr})
local schedule = optim.lr_scheduler.OneCycleLR(optimizer, opt.lr, opt.epochs * #loader + 1)

-- Training -------------------------------------------------------------------------------------

local function train_epoch(epoch)
   local label = ("epoch %2d/%d"):format(epoch, opt.epochs)
   local bar = torch.utils.Progress {label = label, total = #train, unit = "digits"}
   local sum = 0
   model:train()
   for image, class in loader:iter() do
      optimizer:zero_grad()
      local loss = criterion(model(image), class)
      loss:backward()
      optimizer:step()
      schedule:step()
      sum = sum + loss:item() * #image
      bar:step(#image, ("loss %.4f"):format(loss:item()))
   end
   bar:finish(("%s  loss %.4f  %.0f digits/s"):format(label, sum / #train, #train / bar:elapsed()))
end

local parameters = 0
for _, parameter in ipairs(model:parameters()) do parameters = parameters + parameter:numel() end
print(model)
print(("%d parameters, %d digits to learn from, %d to test with, %d threads"):format(
   parameters, #train, #test, torch.get_num_threads()))

local started = torch.io.clock()
for epoch = 1, opt.epochs do train_epoch(epoch) end
print(("training took %.2f s"):format(torch.io.clock() - started))

-- Testing --------------------------------------------------------------------------------------

torch.save(model:state_dict(), opt.save)
print("weights saved to " .. opt.save)

local reader = build():to(opt.device)
reader:load_state_dict(torch.load(opt.save))
reader:evaluate()

images, classes = test:get_items(torch.arange(1, #test + 1))
local scores = torch.no_grad(function() return reader(images) end)
local names = {}
for digit = 0, 9 do names[digit + 1] = tostring(digit) end
local confusion = torch.utils.ConfusionMatrix(10, {names = names}):add(scores, classes)

print(("test accuracy: %.4f (%d/%d)"):format(
   confusion:accuracy(), confusion:correct(), confusion:total()))
print "\nrows: what it is, columns: what it was taken for"
print(confusion)

-- Some digits, side by side, as pictures -------------------------------------------------------

local shades = {[0] = " ", "░", "▒", "▓", "█"}

local function draw(first, count)
   local predictions = scores:argmax(2)
   for y = 1, 8 do
      local line = {}
      for i = first, first + count - 1 do
         local row = {}
         for x = 1, 8 do
            local shade = shades[math.floor(images[{i, 1, y, x}]:item() * 4 + 0.5)]
            row[x] = shade .. shade
         end
         line[#line + 1] = table.concat(row)
      end
      print("  " .. table.concat(line, "  "))
   end
   local captions = {}
   for i = first, first + count - 1 do
      local seen, is = predictions[i]:item() - 1, classes[i]:item() - 1
      captions[#captions + 1] = ("%-16s"):format(
         seen == is and ("    %d"):format(seen) or ("    %d, but is %d"):format(seen, is))
   end
   print("  " .. table.concat(captions, "  ") .. "\n")
end

images, classes, scores = images:cpu(), classes:cpu(), scores:cpu()
print "\nsome of them, and what they were taken for:\n"
local shown = math.min(10, #test)
for first = 1, shown, 5 do draw(first, math.min(5, shown - first + 1)) end
