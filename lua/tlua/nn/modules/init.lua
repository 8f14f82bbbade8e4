-- init.lua - torch.nn.modules: the classes of torch.nn under the paths that they have in PyTorch,
-- such as nn.modules.conv.Conv2d. Each of PyTorch's files is an alias of torch.nn.

local lazy = require "tlua.lazy"

local fields = {}
for name, module in pairs(lazy.fields(require "tlua.nn")) do
   -- Only names that begin with a capital are listed, since these are the names of classes.
   if name:find "^%u" then fields[name] = module end
end
for file in ([[activation adaptive batchnorm channelshuffle container conv distance dropout flatten
   fold instancenorm lazy linear loss module normalization padding pixelshuffle pooling rnn sparse
   transformer upsampling]]):gmatch "%a+" do
   fields[file] = "tlua.nn"
end

return lazy.load({}, fields)
