-- init.lua - torch.data: datasets, samplers and the loader that makes batches of them. Each is
-- loaded when it is first used.

local lazy = require "tlua.lazy"

local files = {}
for file, names in pairs {
   Dataset = "Dataset",
   TensorDataset = "TensorDataset",
   Subset = "Subset",
   ConcatDataset = "ConcatDataset",
   IterableDataset = "IterableDataset",
   samplers = [[Sampler SequentialSampler RandomSampler SubsetRandomSampler
      WeightedRandomSampler BatchSampler]],
   DataLoader = "DataLoader",
   collate = "default_collate",
   random_split = "random_split",
} do
   for name in names:gmatch "[%w_]+" do files[name] = "tlua.data." .. file end
end

return lazy({}, files)
