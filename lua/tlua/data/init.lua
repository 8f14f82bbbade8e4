-- init.lua - torch.data: datasets, samplers and the loader that makes batches of them. Each is
-- loaded when it is first used.

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

return setmetatable({}, {
   lazy = files,
   __index = function(data, name)
      local file = files[name]
      if not file then return nil end
      local value = require(file)
      if type(value) == "table" then value = rawget(value, name) or value end
      rawset(data, name, value)
      return value
   end,
})
