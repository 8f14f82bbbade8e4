-- init.lua - torch.data: datasets, samplers, data pipes and the loader that makes batches. Each
-- file is loaded when it is first used.

local lazy = require "tlua.lazy"

local modules = lazy.modules("tlua.data", {
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
   distributed = "distributed",
   samplers = [[Sampler SequentialSampler RandomSampler SubsetRandomSampler
      WeightedRandomSampler BatchSampler sampler]],
   DataLoader = "DataLoader",
   get_worker_info = "get_worker_info",
   collate = "default_collate default_convert",
   random_split = "random_split",
})

-- data pipes are in a separate package, datapipes
for field, module in pairs(lazy.modules("tlua", {
   datapipes = "datapipes",
   ["datapipes.IterDataPipe"] = "IterDataPipe",
   ["datapipes.DFIterDataPipe"] = "DFIterDataPipe",
   ["datapipes.MapDataPipe"] = "MapDataPipe",
   ["datapipes.DataChunk"] = "DataChunk",
   ["datapipes.functional_datapipe"] = "functional_datapipe",
   ["datapipes.determinism"] = "non_deterministic guaranteed_datapipes_determinism",
   ["datapipes.validation"] = "argument_validation runtime_validation runtime_validation_disabled",
   ["datapipes.graph_settings"] = "graph_settings",
})) do
   modules[field] = module
end

-- Modules under PyTorch's paths, such as torch.data.dataset.Dataset.
modules.dataloader, modules.dataset = "tlua.data", "tlua.data"

return lazy.load({}, modules)
