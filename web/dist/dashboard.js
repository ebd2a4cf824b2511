import{f as e,g as p}from"./part-STCMAK7D.js";import"./part-K4SABGCS.js";e(p("p",{children:"later, replaced at once"}),document.getElementById("app"));
