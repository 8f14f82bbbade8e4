// Gives a program that Node runs the environment variables of its process.
Module.preRun = [].concat(Module.preRun || [], () => Object.assign(ENV, process.env))
