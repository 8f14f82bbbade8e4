-- init.lua - torch.data: datasets, samplers and the loader that makes batches of them. Each is
-- loaded when it is first used.

local lazy = require "tlua.lazy"

return lazy.load({}, lazy.modules("tlua.data", {
   Dataset = "Dataset",
   TensorDataset = "TensorDataset",
   Subset = "Subset",
   ConcatDataset = "ConcatDataset",
   IterableDataset = "IterableDataset",
   ChainDataset = "ChainDataset",
   StackDataset = "StackDataset",
   CSV = "CSV",
   DatasetFolder = "DatasetFolder",
   ImageFolder = "ImageFolder",
   DistributedSampler = "DistributedSampler",
   samplers = [[Sampler SequentialSampler RandomSampler SubsetRandomSampler
      WeightedRandomSampler BatchSampler]],
   DataLoader = "DataLoader",
   get_worker_info = "get_worker_info",
   collate = "default_collate default_convert",
   random_split = "random_split",
}))
