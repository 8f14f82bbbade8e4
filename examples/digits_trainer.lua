-- Trains the network of digits.lua by a trainer, with a checkpoint of the best epoch:
--
--    tlua examples/digits_trainer.lua
--    tlua examples/digits_trainer.lua --epochs 3 --logs /tmp/digits
--    tlua run -n 2 examples/digits_trainer.lua
local torch = require "tlua"
local nn, trainer = torch.nn, torch.trainer

local parser = torch.utils.options("digits_trainer.lua", "Trains a network by a trainer.")
parser:option("--epochs", "passes over the training data", 12)
parser:option("--logs", "the folder of curves and checkpoints", ".")
local opt = parser:parse()

torch.manual_seed(1)
local path = (arg[0]:match "^(.*)/" or ".") .. "/data/digits.csv"
local rows = torch.data.CSV(path, {header = false}):tensor()
local images, classes = rows:narrow(2, 1, 64):float() / 16, rows:select(2, 65) + 1
local digits = torch.data.TensorDataset(images, classes)
local train, val, test = torch.data.random_split(digits, {1400, 197, 200})

local function load(set, shuffle)
   return torch.data.DataLoader(set, {batch_size = 64, shuffle = shuffle})
end

local function accuracy(output, target) return output:argmax(2):eq(target):float():mean() end

local model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 10))
local learner = trainer.Learner(model, nn.CrossEntropyLoss(), {lr = 3e-3,
   metrics = {accuracy = accuracy}})
local best = trainer.ModelCheckpoint {monitor = "val_accuracy", mode = "max"}
local run = trainer.Trainer {max_epochs = opt.epochs, callbacks = {best},
   default_root_dir = opt.logs}
run:fit(learner, load(train, true), load(val))
run:test(learner, load(test), {ckpt_path = "best"})
