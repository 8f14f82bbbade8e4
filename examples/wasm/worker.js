// Runs Lua in a worker, so that the page still responds while a network is trained.
'use strict';

// Sends a line to the page as a terminal would show it: only the text after the last carriage
// return, with which a progress bar overwrites the line, and without colours.
const say = text => postMessage({text: text.split('\r').pop().replace(/\x1b\[\d*\w/g, '')});

// `tlua.js` reads this object when it starts.
var Module = {
  print: say,
  printErr: say,
  onRuntimeInitialized() {
    const evaluate = Module.cwrap('evaluate', null, ['string']);
    onmessage = event => {
      try {
        evaluate(event.data);
      } catch (error) {
        say('stopped: ' + error);
      }
      postMessage({ready: true});
    };
    // The timer runs after the function main has ended.
    setTimeout(() => postMessage({ready: true}));
  },
};

importScripts('tlua.js');
